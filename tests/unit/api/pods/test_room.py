"""Whether a request fits on a node."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.pods.room import Room, grown, held, missing, room_on, shortages
from podfit.api.quantity import Quantity
from podfit.api.resize.verdicts import Shortage

CORES = st.integers(0, 64)


def cpu(count: int) -> dict[str, Quantity]:
    return {"cpu": Quantity.of_units(count)}


def pod(uid: str, asked: int, allocated: int) -> dict[str, Any]:
    amount = {"cpu": str(allocated)}
    status = {"name": "c", "allocatedResources": amount, "resources": {"requests": amount}}
    return {
        "metadata": {"uid": uid},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(asked)}}}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


@given(CORES, CORES, CORES)
def test_a_request_fits_exactly_when_it_is_no_more_than_what_is_left(needs: int, used: int, capacity: int) -> None:
    found = shortages(cpu(needs), Room(cpu(capacity), cpu(used)))
    fits = not needs or needs <= capacity - used
    assert found == ([] if fits else [Shortage("cpu", needs * 1000, used * 1000, capacity * 1000)])


def test_shortages_come_as_pods_cpu_memory_and_then_the_rest_by_name() -> None:
    needs = {name: Quantity.of_units(1) for name in ("z", "memory", "a", "cpu")}
    found = shortages(needs, Room({}, {}, pods=110), adding=True)
    assert [short.resource for short in found] == ["pods", "cpu", "memory", "a", "z"]


@given(CORES, CORES)
def test_a_pod_holds_what_is_allocated_whatever_it_requests(asked: int, allocated: int) -> None:
    assert held(pod("p", asked, allocated)).get("cpu", Quantity(0)) == Quantity.of_units(allocated)


@given(CORES, CORES)
def test_only_a_request_that_grows_takes_from_the_node(needs: int, has: int) -> None:
    assert grown(cpu(needs), cpu(has)) == (cpu(needs) if needs > has else {})


@given(CORES, CORES, CORES, CORES)
def test_a_resize_lacks_what_the_other_pods_of_the_node_hold(asked: int, has: int, other: int, capacity: int) -> None:
    node = {"status": {"allocatable": {"cpu": str(capacity)}}}
    me = pod("me", asked, has)
    room = room_on(node, [me, pod("other", 64, other)], me)
    assert bool(missing(me, room)) is (asked > has and asked > capacity - other)
