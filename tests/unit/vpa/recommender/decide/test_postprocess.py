"""Conversion of estimated amounts to the recommendation of a status."""

from __future__ import annotations

from typing import Any

from tests.support.autoscalers import recommended, vpa

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.vpa.model.objects.pods import printed
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.recommender.decide.postprocess import formatted, post_processed, published, whole_cores

SIZES = Estimate({"cpu": 1200, "memory": 3 << 29}, {"cpu": 600, "memory": 1 << 30}, {"cpu": 2400, "memory": 3 << 30})
WHOLE = {"annotations": {"vpa-post-processor.kubernetes.io/app_integerCPU": "true"}}


def limited(**policy: Any) -> Object:
    return vpa(resourcePolicy={"containerPolicies": [{"containerName": "app", **policy}]})


def with_note(scaler: Object) -> Object:
    return {**scaler, "metadata": {**scaler["metadata"], **WHOLE}}


def test_containers_are_in_order_of_names_and_printed_as_quantities() -> None:
    first, second = formatted({"b": SIZES, "a": SIZES}, Config())
    assert (first.container, second.container) == ("a", "b")
    assert printed(first.target) == {"cpu": "1200m", "memory": "1536Mi"} and first.uncapped == first.target


def test_amounts_are_rounded_up_and_humanized_as_the_flags_say() -> None:
    config = Config(round_cpu_millicores=500, humanize_memory=True)
    [one] = formatted({"a": SIZES}, config)
    assert one.target == {"cpu": Quantity.parse("1500m"), "memory": Quantity.parse("1.50Gi")}


def test_the_uncapped_target_is_based_on_own_samples_only() -> None:
    own = Estimate({"cpu": 100}, {}, {})
    first, second = formatted({"a": SIZES, "b": SIZES}, Config(), {"a": own, "b": None})
    assert printed(first.uncapped) == {"cpu": "100m"} and second.uncapped == {}


def test_the_policy_and_the_cluster_cap_all_but_the_uncapped_target() -> None:
    [one] = post_processed(
        limited(maxAllowed={"cpu": "1"}, minAllowed={"memory": "2Gi"}), formatted({"app": SIZES}, Config()), Config()
    )
    assert (printed(one.target)["cpu"], printed(one.upper)["cpu"], printed(one.lower)["memory"]) == ("1", "1", "2Gi")
    assert printed(one.uncapped) == {"cpu": "1200m", "memory": "1536Mi"}
    config = Config(container_recommendation_max_allowed_cpu=Quantity.parse("500m"))
    [one] = post_processed(vpa(), formatted({"app": SIZES}, config), config)
    assert printed(one.target)["cpu"] == "500m"


def test_whole_cores_need_the_flag_and_the_annotation() -> None:
    config = Config(cpu_integer_post_processor_enabled=True)
    for scaler, given, cpu in (
        (with_note(vpa()), config, "2"),
        (with_note(vpa()), Config(), "1200m"),
        (vpa(), config, "1200m"),
    ):
        [one] = post_processed(scaler, formatted({"app": SIZES}, given), given)
        assert one.target["cpu"] == Quantity.parse(cpu)
    assert whole_cores(with_note(vpa()), "app", Quantity.parse("1")) == Quantity.parse("1")


def test_published_sizes_stay_within_what_the_policy_allows_now() -> None:
    entry = {**recommended(target={"cpu": "1", "memory": "1Gi"}), "uncappedTarget": {"cpu": "2", "memory": "1Gi"}}
    scaler = limited(controlledResources=["cpu"], maxAllowed={"cpu": "1500m"})
    scaler["status"] = vpa(entry, recommended("other"))["status"]
    [one] = published(scaler, Config(), {"app"})
    assert printed(one.target) == {"cpu": "1500m"} and printed(one.uncapped) == {"cpu": "2"}
