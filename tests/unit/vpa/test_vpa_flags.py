"""Command lines are parsed as by upstream's binaries."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.quantity import Quantity
from podfit.kit.durations import go_duration
from podfit.vpa.admission.ciphers import openssl_list
from podfit.vpa.admission.config import AdmissionConfig, admission_config
from podfit.vpa.flag_texts import TEXTS
from podfit.vpa.flags import NUMBERS, BadFlag, WrongLine, described, duration, gates
from podfit.vpa.recommender.config import RecommenderConfig, recommender_config
from podfit.vpa.updater.config import UpdaterConfig, updater_config

UPSTREAM = {
    "recommender-name": "default",
    "checkpoints-gc-interval": "10m0s",
    "target-cpu-percentile": "0.9",
    "pod-recommendation-min-memory-mb": "250.0",
    "history-length": "192h0m0s",
    "container-name-label": "name",
    "oom-min-bump-up-bytes": "104857600",
    "round-memory-bytes": "1",
    "confidence-interval-memory": "24h0m0s",
    "update-worker-count": "10",
    "address": ":8942",
    "leader-elect-resource-name": "vpa-recommender-lease",
}


def test_the_recommenders_flags_have_upstreams_names_and_defaults() -> None:
    known = {flag: value for flag, value, _ in described(RecommenderConfig())}
    assert {name: known[f"--{name}"] for name in UPSTREAM} == UPSTREAM


COMMON = "address kubeconfig kube-api-qps kube-api-burst profiling vpa-object-namespace ignored-vpa-object-namespaces v"
ELECTION = "elect elect-lease-duration elect-renew-deadline elect-resource-lock elect-resource-name"
ELECTION += " elect-resource-namespace elect-retry-period"
OF = {
    "recommender": """recommender-name recommender-interval checkpoints-gc-interval checkpoints-timeout storage
        memory-saver update-worker-count recommendation-margin-fraction pod-recommendation-min-cpu-millicores
        pod-recommendation-min-memory-mb target-cpu-percentile recommendation-lower-bound-cpu-percentile
        recommendation-upper-bound-cpu-percentile target-memory-percentile recommendation-lower-bound-memory-percentile
        recommendation-upper-bound-memory-percentile confidence-interval-cpu confidence-interval-memory humanize-memory
        round-cpu-millicores round-memory-bytes cpu-integer-post-processor-enabled
        container-recommendation-max-allowed-cpu container-recommendation-max-allowed-memory prometheus-address
        prometheus-insecure prometheus-cadvisor-job-name history-length history-resolution history-cpu-metric
        history-memory-metric prometheus-query-timeout pod-label-prefix metric-for-pod-labels pod-namespace-label
        pod-name-label container-namespace-label container-pod-name-label container-name-label username password
        prometheus-bearer-token prometheus-bearer-token-file use-external-metrics external-metrics-cpu-metric
        external-metrics-memory-metric memory-aggregation-interval memory-aggregation-interval-count
        memory-histogram-decay-half-life cpu-histogram-decay-half-life oom-bump-up-ratio oom-min-bump-up-bytes
        feature-gates""",
    "updater": """updater-interval min-replicas eviction-tolerance eviction-rate-limit eviction-rate-burst
        use-admission-controller-status in-place-skip-disruption-budget pod-update-threshold
        in-recommendation-bounds-eviction-lifetime-threshold evict-after-oom-threshold feature-gates""",
    "admission": """port client-ca-file tls-cert-file tls-private-key reload-cert tls-ciphers min-tls-version
        webhook-service webhook-address webhook-port register-by-url webhook-timeout-seconds
        webhook-failure-policy-fail register-webhook webhook-labels max-allowed-cpu-boost feature-gates""",
}


@pytest.mark.parametrize("component", sorted(OF))
def test_every_flag_of_upstreams_binary_exists(component: str) -> None:
    default = {"recommender": RecommenderConfig(), "updater": UpdaterConfig(), "admission": AdmissionConfig()}[
        component
    ]
    wanted = [*OF[component].split(), *COMMON.split()]
    if component != "admission":
        wanted += [f"leader-{name}" for name in ELECTION.split()]
    assert not {f"--{name}" for name in wanted} - {flag for flag, _, _ in described(default)}


def test_flags_about_log_files_are_accepted() -> None:
    config = updater_config(
        ["--logtostderr", "--skip-headers=true", "--log-dir", "/tmp", "--stderrthreshold=info", "-v=6"]
    )
    assert config.v == 6


def test_gates_come_alone_and_in_groups() -> None:
    assert gates("AllAlpha=true,InPlace=false") == {"CPUStartupBoost": True, "InPlace": False, "PerVPAConfig": True}
    assert gates("InPlaceOrRecreate=true,AllBeta=true") == {}


def test_the_namespace_of_the_process_is_where_the_webhooks_lease_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESPACE", "elsewhere")
    assert UpdaterConfig().admission_controller_status_lease_namespace == AdmissionConfig().namespace == "elsewhere"


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("", ""),
        ("nonsense", ""),
        (
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,nonsense:TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        ("ECDHE-RSA-AES256-SHA", "ECDHE-RSA-AES256-SHA"),
        ("TLS_AES_128_GCM_SHA256", ""),
    ],
)
def test_ciphers_have_the_names_go_gives_them(text: str, listed: str) -> None:
    assert openssl_list(text) == listed
    if listed:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(listed)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90.0), ("8d", 691200.0), ("500ms", 0.5), ("0", 0.0), ("-1h", -3600.0), ("1.5h", 5400)],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1x", "m", "1m junk"])
def test_an_invalid_duration_is_rejected(text: str) -> None:
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
        (["--nope"], "unknown flag: --nope"),
        (["stray"], "unexpected argument: stray"),
        (["--recommender-interval"], "flag needs an argument"),
        (["--update-worker-count=many"], 'invalid argument "many" .*ParseInt: parsing "many": invalid syntax'),
        (["--target-cpu-percentile=5m"], 'strconv.ParseFloat: parsing "5m": invalid syntax'),
        (["--storage=floppy"], "checkpoint, prometheus or local"),
        (["--memory-saver=perhaps"], 'strconv.ParseBool: parsing "perhaps": invalid syntax'),
        (["--vpa-object-namespace=a", "--ignored-vpa-object-namespaces=b"], "cannot be set together"),
        (["--feature-gates=InPlace"], "missing bool value"),
        (["--feature-gates=InPlace=perhaps"], "invalid value of InPlace=perhaps"),
        (["--feature-gates=Magic=true"], "unrecognized feature gate: Magic"),
        (["--use-external-metrics"], "external-metrics-cpu-metric"),
    ],
)
def test_invalid_recommender_flags_are_reported(arguments: list[str], words: str) -> None:
    with pytest.raises(BadFlag, match=words):
        recommender_config(arguments)


def test_plain_numbers_and_durations_are_distinguished() -> None:
    assert _flags(RecommenderConfig(), UpdaterConfig()) >= NUMBERS
    assert updater_config(["--eviction-tolerance=1e-1", "--evict-after-oom-threshold=90"]).eviction_tolerance == 0.1


def _flags(*configs: object) -> set[str]:
    return {name.removeprefix("--") for made in configs for name, _, _ in described(made)}


def test_every_text_describes_a_flag() -> None:
    assert _flags(RecommenderConfig(), UpdaterConfig(), AdmissionConfig()) == TEXTS.keys()


@given(st.integers(0, 10**9))
def test_a_duration_is_read_as_it_is_shown(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    assert duration(go_duration(seconds)) == pytest.approx(seconds, abs=0.0005)


def test_a_line_that_cannot_be_read_ends_the_command_as_other_wrong_lines_do() -> None:
    assert WrongLine("").exit_code == 2
    assert not hasattr(BadFlag(""), "exit_code")
    with pytest.raises(WrongLine):
        updater_config(["--nope"])


def test_invalid_updater_and_admission_flags_are_reported() -> None:
    with pytest.raises(BadFlag, match="not a window"):
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
