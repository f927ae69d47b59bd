"""The two resize conditions and their times."""

from __future__ import annotations

from podfit.agent.decide.resize.conditions import ResizeConditions, from_status
from podfit.kit.clock import rfc3339


def test_a_condition_keeps_its_time_while_its_reason_holds() -> None:
    first = ResizeConditions().refused("Deferred", "a", 2, 10.0)
    second = first.refused("Deferred", "b", 3, 20.0)
    assert second.pending is not None
    assert (second.pending.since, second.pending.message, second.pending.generation) == (10.0, "b", 3)
    assert second.refused("Infeasible", "c", 4, 30.0).pending.since == 30.0  # type: ignore[union-attr]


def test_conditions_survive_the_way_through_the_api() -> None:
    conditions = ResizeConditions().refused("Deferred", "no room", 3, 1000.0).failed("busy", 2, 2000.0)
    assert from_status({"conditions": conditions.to_json()}) == conditions


def test_a_condition_has_the_time_of_its_current_message() -> None:
    first = ResizeConditions().refused("Deferred", "a", 2, 1000.0)
    assert first.refused("Deferred", "a", 2, 1010.0) == first
    (shown,) = first.refused("Deferred", "b", 2, 1020.0).to_json()
    assert (shown["lastTransitionTime"], shown["lastProbeTime"]) == (rfc3339(1000.0), rfc3339(1020.0))
    (shown,) = first.refused("Deferred", "a", 3, 1030.0).refused("Infeasible", "c", 4, 1040.0).to_json()
    assert (shown["lastTransitionTime"], shown["lastProbeTime"]) == (rfc3339(1040.0), rfc3339(1040.0))
    failing = ResizeConditions().granted(2, 1000.0).failed("a", 2, 1001.0).failed("b", 2, 1015.0)
    (shown,) = failing.to_json()
    assert (shown["lastTransitionTime"], shown["lastProbeTime"]) == (rfc3339(1001.0), rfc3339(1015.0))
    assert from_status({"conditions": [shown]}) == failing
