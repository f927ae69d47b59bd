"""The four states as four types."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.resize.states import (
    Actual,
    Actuated,
    Allocated,
    Desired,
    actual_of,
    allocated_of,
    amount,
    desired_of,
    differs,
    effective,
    equal,
    requests_equal,
    resized,
    shared,
)

SIZES = st.sampled_from(({}, {"cpu": "1"}, {"cpu": "1000m"}, {"cpu": "2", "memory": "1Gi"}, {"memory": "1024Mi"}))


def pod(**containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "resources": size} for name, size in containers.items()]}}


def test_desired_is_read_from_the_spec_and_allocated_and_actual_from_the_status() -> None:
    made = pod(c={"requests": {"cpu": "2"}, "claims": [{"name": "x"}]})
    status = {"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "500m"}}}
    made["status"] = {"containerStatuses": [status, {"name": "other"}], "resources": {"limits": {"cpu": "3"}}}
    assert desired_of(made) == Desired({"c": {"requests": {"cpu": "2"}}})
    assert allocated_of(made) == Allocated({"c": {"requests": {"cpu": "1"}}})
    assert actual_of(made) == Actual({"c": {"requests": {"cpu": "500m"}}}, {"limits": {"cpu": "3"}})


def test_the_states_are_types_of_their_own() -> None:
    sizes = {"c": {"requests": {"cpu": "1"}}}
    assert Desired(sizes) != Allocated(sizes) and Actuated(sizes) != Actual(sizes)
    assert equal(Desired(sizes), Allocated(sizes)) and shared(Desired(sizes), Allocated(sizes))


def test_a_pod_without_a_status_has_no_allocation_and_no_actual_size() -> None:
    assert allocated_of(pod(c={})) == Allocated() and actual_of(pod(c={})) == Actual()


@given(SIZES, SIZES)
def test_sizes_are_equal_when_their_amounts_are_however_these_are_written(
    one: dict[str, str], two: dict[str, str]
) -> None:
    mine, theirs = Desired({"c": {"requests": one}}), Allocated({"c": {"requests": two}})
    same = all(
        (amount({"requests": one}, name).request or 0) == (amount({"requests": two}, name).request or 0)
        for name in ("cpu", "memory")
    )
    assert equal(mine, theirs) is same
    assert equal(theirs, mine) is same
    if requests_equal(mine, theirs):
        assert same


def test_unset_and_zero_do_not_differ() -> None:
    assert not differs({"limits": {"cpu": "0"}}, None, "cpu")


@given(SIZES, SIZES)
def test_a_resized_pod_desires_exactly_these_sizes_and_the_original_stays(
    old: dict[str, str], new: dict[str, str]
) -> None:
    made = pod(c={"requests": old})
    after = resized(made, Allocated({"c": {"requests": new} if new else {}}))
    assert equal(desired_of(after), Desired({"c": {"requests": new}}))
    assert made == pod(c={"requests": old})


def test_a_container_without_its_own_limit_has_the_limit_of_its_pod() -> None:
    level = {"limits": {"cpu": "2", "memory": "1Gi"}}
    assert effective({"limits": {"cpu": "1"}}, level) == {"limits": {"cpu": "1", "memory": "1Gi"}}
    assert effective({}, None) == {}
