"""The reasons why a pod was not changed."""

from __future__ import annotations

import pytest
from tests.support.autoscalers import DEFERRED, START_S, container, pod, recommended, vpa

from podfit.api.objects import Object
from podfit.vpa.model.fitting.capping import capped_for_pod
from podfit.vpa.model.fitting.limitranges import NO_BOUNDS
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.restriction import Attempts, Restriction
from podfit.vpa.updater.decide.whynot import TOO_FEW, WhyNot, sizes_of, too_few, why_not

FAR = recommended(target={"cpu": "2"}, lower={"cpu": "1"}, upper={"cpu": "3"})
NEAR = recommended(target={"cpu": "105m"}, lower={"cpu": "50m"}, upper={"cpu": "3"})
DAY_S = 24 * 3600.0


def expect_reason(
    reason: str, scaler: Object, obj: Object, replicas: int = 4, later_s: float = 60, used: int = 0
) -> WhyNot:
    pods = [obj, *(pod(f"other{number}") for number in range(replicas - 1))]
    restriction = Restriction(pods, scaler, lambda _: replicas, UpdateConfig(), Attempts())
    for other in pods[1 : used + 1]:
        restriction.count_eviction(other)
    found = why_not(obj, scaler, restriction, START_S + later_s, UpdateConfig(), NO_BOUNDS)
    assert found.reason == reason
    return found


@pytest.mark.parametrize(
    ("reason", "scaler"),
    [
        ("UpdateModeOff", vpa(FAR, mode="Off")),
        ("GateClosed", vpa(FAR, mode="InPlace")),
        ("NoRecommendation", vpa()),
        ("NothingRecommended", vpa(recommended("other"))),
        ("AtTarget", vpa(recommended(target={"cpu": "100m"}))),
        ("WithinBounds", vpa(NEAR)),
    ],
)
def test_the_autoscaler_gives_the_reason(reason: str, scaler: Object) -> None:
    expect_reason(reason, scaler, pod())


@pytest.mark.parametrize(
    ("reason", "one"),
    [
        ("PodPending", pod(phase="Pending")),
        ("ResizeUnderWay", pod(conditions=[DEFERRED])),
        ("NotYet", pod()),
    ],
)
def test_the_pod_gives_the_reason(reason: str, one: Object) -> None:
    expect_reason(reason, vpa(FAR), one)


def test_a_small_difference_is_named_with_the_threshold() -> None:
    found = expect_reason("SmallDifference", vpa(NEAR), pod(), later_s=DAY_S)
    assert "5.0% is below 10% (--pod-update-threshold)" in found.message and found.quiet


def test_a_used_up_budget_names_the_replicas() -> None:
    found = expect_reason("BudgetUsedUp", vpa(FAR), pod(), used=2)
    assert found.message.startswith("of 4 replicas 4 run, and 2 may be changed at once")


def test_a_controller_with_few_replicas_is_named() -> None:
    expect_reason(TOO_FEW, vpa(FAR), pod(), replicas=1)


def test_unmet_eviction_requirements_are_named() -> None:
    needs = {"evictionRequirements": [{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]}
    found = expect_reason(
        "EvictionRequirements",
        vpa(FAR, updatePolicy=needs),
        pod("p", container(requests={"cpu": "100m", "memory": "1Gi"})),
    )
    assert "TargetLowerThanRequests of cpu" in found.message


def test_sizes_are_shown_with_units_and_bounds() -> None:
    capped = capped_for_pod(vpa(FAR), pod(), NO_BOUNDS)
    assert capped is not None
    assert sizes_of(pod(), capped[0]) == "container app requests 100m of cpu (target 2000m, bounds 1000m to 3000m)"


@pytest.mark.parametrize(
    ("running", "configured", "evicted", "reason"),
    [(1, None, 0, "UnknownController"), (1, 2, 1, "AwaitingSuccessor"), (1, 1, 0, TOO_FEW)],
)
def test_few_replicas_have_a_reason_each(running: int, configured: int | None, evicted: int, reason: str) -> None:
    found = too_few(pod(), running, configured, evicted, 2, "Recreate")
    assert found.reason == reason and "ReplicaSet web-1" in found.message
