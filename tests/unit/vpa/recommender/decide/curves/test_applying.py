"""Conversion of policies' sizes to estimates."""

from __future__ import annotations

import pytest
from tests.support.autoscalers import vpa

from podfit.api.selectors import LabelSelector
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.curves.applying import amount_of, given_by_policy, least_of, with_policy
from podfit.vpa.recommender.decide.curves.sizing import PolicySizes
from podfit.vpa.recommender.decide.histograms.cluster import Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate

BOTH = Estimate({"cpu": 500, "memory": 1 << 30}, {"cpu": 100, "memory": 1 << 29}, {"cpu": 900, "memory": 1 << 31})


def scaler(mode: str = "Recreate") -> Vpa:
    return Vpa(("ns", "v"), vpa(mode=mode), LabelSelector.parse(""))


def applied(size: dict[str, float], mode: str = "Recreate", failed: str = "") -> Estimate:
    estimates = {"app": BOTH}
    with_policy(scaler(mode), estimates, {"app": PolicySizes(size, {}, failed)}, Config())
    return estimates["app"]


@pytest.mark.parametrize(("resource", "size", "amount"), [("cpu", 0.1, 100), ("cpu", 0.1001, 101), ("memory", 1.2, 2)])
def test_amounts_are_rounded_up(resource: str, size: float, amount: int) -> None:
    assert amount_of(resource, size) == amount


def test_the_target_is_the_policys_and_a_resource_without_one_keeps_its_own() -> None:
    assert applied({"cpu": 0.7}).target == {"cpu": 700, "memory": 1 << 30}


def test_usual_bounds_enclose_the_target() -> None:
    assert applied({"cpu": 2.0}).upper["cpu"] == 2000 and applied({"cpu": 2.0}).lower["cpu"] == 100
    assert applied({"cpu": 0.05}).lower["cpu"] == 50


def test_bounds_are_near_the_target_where_changes_are_made_in_place() -> None:
    made = applied({"cpu": 1.0}, "InPlaceOrRecreate")
    assert (made.lower["cpu"], made.upper["cpu"]) == (950, 1050)


def test_a_policy_that_failed_changes_nothing() -> None:
    assert applied({}, failed="why") == BOTH


def test_the_least_size_is_that_of_policies_unless_flags_say_otherwise() -> None:
    assert least_of(Config()) == {"cpu": 10, "memory": 32 << 20}
    assert least_of(Config(pod_recommendation_min_cpu_millicores=5.0)) == {"cpu": 5, "memory": 32 << 20}
    assert applied({"cpu": 0.001}).target["cpu"] == 10


def test_sizes_of_the_policy_itself_are_distinguished() -> None:
    given = {
        "app": PolicySizes({"cpu": 0.7}, {}),
        "gone": PolicySizes({"cpu": 1.0}, {}),
        "failed": PolicySizes({}, {}, "why"),
    }
    found = given_by_policy(scaler(), {"app": BOTH, "failed": BOTH}, given, Config())
    assert {name: item.target for name, item in found.items()} == {"app": {"cpu": 700}}
