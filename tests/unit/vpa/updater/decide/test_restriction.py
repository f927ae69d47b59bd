"""Whether a pod may be evicted or resized now."""

from __future__ import annotations

import pytest
from tests.support.autoscalers import DEFERRED, IN_PROGRESS, INFEASIBLE, container, pod, recommended, vpa

from podfit.api.objects import Object
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.restriction import Attempts, Decision, Restriction

OTHERS = [pod("b"), pod("c"), pod("d")]
GATED = UpdateConfig(gates={"InPlace": True})


def restriction(
    obj: Object, attempts: Attempts | None = None, config: UpdateConfig | None = None, mode: str = "InPlaceOrRecreate"
) -> Restriction:
    scaler = vpa(recommended(), mode=mode)
    return Restriction([obj, *OTHERS], scaler, lambda _: 4, config or UpdateConfig(), attempts or Attempts())


def decide(obj: Object, attempts: Attempts, config: UpdateConfig, clock: float) -> Decision:
    attempts.forget([obj, *OTHERS], config)
    return restriction(obj, attempts, config).can_resize(obj, clock)


@pytest.mark.parametrize(("per_attempt", "expected"), [(False, Decision.EVICT), (True, Decision.DEFERRED)])
def test_second_deferral_waits_again_when_timeouts_count_per_attempt(per_attempt: bool, expected: Decision) -> None:
    config, attempts = UpdateConfig(timeouts_per_attempt=per_attempt), Attempts()
    assert decide(pod("a", conditions=[DEFERRED]), attempts, config, 0) is Decision.DEFERRED
    assert decide(pod("a"), attempts, config, 100) is Decision.APPROVED
    assert decide(pod("a", conditions=[DEFERRED]), attempts, config, 10_000) is expected


def test_infeasible_attempts_of_pods_that_are_gone_are_dropped() -> None:
    attempts = Attempts(infeasible={"uid-a": {}, "gone": {}})
    attempts.forget([pod("a")], UpdateConfig())
    assert set(attempts.infeasible) == {"uid-a"}


@pytest.mark.parametrize(("condition", "patience_s"), [(DEFERRED, 300), (IN_PROGRESS, 3600)])
def test_a_resize_that_takes_too_long_becomes_an_eviction(condition: Object, patience_s: int) -> None:
    one, attempts = pod("a", conditions=[condition]), Attempts()
    assert restriction(one, attempts).can_resize(one, 0) is Decision.DEFERRED
    assert restriction(one, attempts).can_resize(one, patience_s) is Decision.DEFERRED
    assert restriction(one, attempts).can_resize(one, patience_s + 1) is Decision.EVICT
    assert restriction(one, attempts).can_evict(one, patience_s + 1)


def test_an_infeasible_resize_is_evicted_at_once() -> None:
    one = pod("a", conditions=[INFEASIBLE])
    assert restriction(one).can_resize(one, 0) is Decision.EVICT


def test_in_mode_in_place_an_infeasible_resize_is_remembered_until_less_is_recommended() -> None:
    one, attempts = pod("a", conditions=[INFEASIBLE]), Attempts()
    made = restriction(one, attempts, GATED, "InPlace")
    assert made.can_resize(one, 0) is Decision.INFEASIBLE
    made.remember_infeasible(one)
    assert made.can_resize(one, 0) is Decision.INFEASIBLE_CACHED


def test_in_mode_in_place_a_deferred_resize_is_only_waited_for() -> None:
    one, attempts = pod("a", conditions=[DEFERRED]), Attempts()
    decisions = [restriction(one, attempts, GATED, "InPlace").can_resize(one, at) for at in (0, 1e6)]
    assert decisions == [Decision.DEFERRED, Decision.DEFERRED]


def test_a_pod_that_has_not_started_may_be_evicted_and_not_resized() -> None:
    one = pod("a", phase="Pending")
    made = restriction(one)
    assert made.can_evict(one, 0) and made.can_resize(one, 0) is Decision.DEFERRED


def test_evictions_and_resizes_use_up_one_budget() -> None:
    one = pod("a")
    made = restriction(one)
    made.count_eviction(one)
    assert made.can_resize(one, 0) is Decision.APPROVED
    made.count_resize(one)
    assert made.can_resize(one, 0) is Decision.DEFERRED
    assert not made.can_evict(one, 0) and not made.can_unboost(one)


def test_the_budget_is_skipped_only_for_resizes_that_restart_nothing() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    plain, restarting = pod("a"), pod("a", container(resizePolicy=policy))
    for item, expected in ((plain, Decision.APPROVED), (restarting, Decision.DEFERRED)):
        made = restriction(item, config=UpdateConfig(in_place_skip_disruption_budget=True))
        for other in OTHERS:
            made.count_resize(other)
        assert made.can_resize(item, 0) is expected


def test_a_pod_of_no_group_is_not_changed() -> None:
    made, stranger = restriction(pod("a")), pod("x")
    assert not made.can_evict(stranger, 0) and not made.can_unboost(stranger)
    assert made.can_resize(stranger, 0) is Decision.DEFERRED
