"""Command lines are read as upstream's binaries read them."""

from __future__ import annotations

import pytest

from podfit.api.quantity import Quantity
from podfit.vpa.admission.config import AdmissionConfig, admission_config
from podfit.vpa.flags import BadFlag, described, duration
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.updater.config import UpdaterConfig, updater_config

UPSTREAM = {
    "recommender-name": "default",
    "checkpoints-gc-interval": "600.0",
    "target-cpu-percentile": "0.9",
    "pod-recommendation-min-memory-mb": "250.0",
    "history-length": "691200.0",
    "container-name-label": "name",
    "oom-min-bump-up-bytes": "104857600",
    "round-memory-bytes": "1",
    "confidence-interval-memory": "86400",
    "update-worker-count": "10",
    "address": ":8942",
    "leader-elect-resource-name": "vpa-recommender-lease",
}


def test_the_recommenders_flags_have_upstreams_names_and_defaults() -> None:
    known = dict(described(RecommenderConfig()))
    assert {name: known[f"--{name}"] for name in UPSTREAM} == UPSTREAM


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90.0), ("8d", 691200.0), ("500ms", 0.5), ("0", 0.0), ("-1h", -3600.0), ("1.5h", 5400)],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1x", "m", "1m junk"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        duration(text)


def test_spellings_of_flags() -> None:
    config = recommender_config(
        [
            "--recommender_interval=30s",
            "--memory-saver",
            "--target-cpu-percentile",
            "0.5",
            "-v=4",
            "--container-recommendation-max-allowed-cpu=2",
            "--feature-gates=PerVPAConfig=true",
            "--ignored-vpa-object-namespaces=a,b",
            "--prometheus-address=http://p:9090",
        ]
    )
    assert config.recommender_interval == 30 and config.memory_saver
    assert config.model.target_cpu_percentile == 0.5
    assert config.model.container_recommendation_max_allowed_cpu == Quantity.parse("2")
    assert config.model.per_vpa_config
    assert config.ignored_vpa_object_namespaces == ("a", "b")
    assert config.prometheus.prometheus_address == "http://p:9090"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nope=1"], "unknown flag: --nope"),
        (["stray"], "unexpected argument: stray"),
        (["--recommender-interval"], "flag needs an argument"),
        (["--update-worker-count=many"], 'invalid argument "many"'),
        (["--storage=floppy"], "checkpoint, prometheus or local"),
        (["--memory-saver=perhaps"], "true or false"),
        (["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"], "cannot be set together"),
        (["--feature-gates=InPlace"], "missing bool value"),
    ],
)
def test_wrong_recommender_flags_are_told(arguments: list[str], words: str) -> None:
    with pytest.raises(BadFlag, match=words):
        recommender_config(arguments)


def test_wrong_updater_and_admission_flags_are_told() -> None:
    with pytest.raises(BadFlag, match="no window"):
        updater_config(["--maintenance-windows=tomorrow"])
    with pytest.raises(BadFlag, match="scale-down-step"):
        updater_config(["--scale-down-step=0"])
    with pytest.raises(BadFlag, match="min-tls-version"):
        admission_config(["--min-tls-version=ssl3"])
    with pytest.raises(BadFlag, match="webhook-address"):
        admission_config(["--register-by-url"])


def test_updater_and_admission_defaults_are_upstreams() -> None:
    updater, admission = UpdaterConfig(), AdmissionConfig()
    assert (updater.min_replicas, updater.eviction_tolerance, updater.pod_update_threshold) == (2, 0.5, 0.1)
    assert (updater.eviction_rate_limit, updater.eviction_rate_burst, updater.address) == (-1, 1, ":8943")
    assert (admission.port, admission.webhook_timeout_seconds, admission.webhook_service) == (8000, 30, "vpa-webhook")
