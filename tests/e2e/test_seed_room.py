"""Capacity of a node: freed for waiting pods by a resize, granted to deferred resizes in order or to critical pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named

from .noderuntimes import NodeRuntime
from .seedpods import (
    RESIZE,
    Lab,
    conditions,
    container,
    exactly,
    is_ready,
    needs_cgroups,
    patch_of,
    pod,
    sizes,
    statuses,
)

pytestmark = [
    pytest.mark.root,
    needs_cgroups,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("seed-room"),
]
PRIORITY = kind_named("PriorityClass")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(node_runtime: NodeRuntime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    """A node of two cores and 2 GiB."""
    capacity = {"cpu": "2", "memory": "2Gi"}
    async with Lab(tmp_path_factory.mktemp("room"), node_capacity=capacity, **node_runtime.options) as running:
        meta = {"metadata": {"name": "important"}, "value": 1000}
        await running.client.create(PRIORITY, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **meta})
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab) -> AsyncIterator[None]:
    yield
    await lab.clear()


def placed(name: str, resources: Object, **spec: object) -> Object:
    """A pod that the scheduler has to place."""
    return pod(name, container("c1", resources), **{"nodeName": "", **spec})


def unschedulable(seen: Object | None) -> bool:
    assert seen is not None
    shown = conditions(seen).get("PodScheduled") or {}
    return (shown.get("status"), shown.get("reason")) == ("False", "Unschedulable")


def deferred(seen: Object | None) -> bool:
    assert seen is not None
    return bool(conditions(seen).get("PodResizePending", {}).get("reason") == "Deferred")


async def ask(lab: Lab, name: str, text: str | Object) -> None:
    await lab.patch(name, patch_of({"c1": exactly(text) if isinstance(text, str) else text}))


async def done(lab: Lab, *names: str) -> None:
    for seen in await asyncio.gather(*(lab.settled(name) for name in names)):
        await lab.verify(seen)


# --- the scheduler --------------------------------------------------------------------------------------------------


async def test_room_freed_by_a_resize_lets_a_waiting_pod_run(lab: Lab) -> None:
    await lab.run(placed("p1", exactly("1200m/64Mi")), placed("p2", exactly("600m/64Mi")))
    await lab.create(placed("p3", exactly("500m/64Mi")))
    waiting = await lab.until("p3", unschedulable)
    assert "0/1 nodes are available: 1 Insufficient cpu" in conditions(waiting)["PodScheduled"]["message"]
    await ask(lab, "p2", "400m/64Mi")
    await done(lab, "p2")
    assert unschedulable(await lab.get("p3"))
    await ask(lab, "p1", "1100m/64Mi")
    await lab.verify(await lab.until("p3", is_ready))
    await done(lab, "p1")


async def test_a_waiting_pod_that_requests_less_runs(lab: Lab) -> None:
    await lab.run(placed("p1", exactly("1500m/64Mi")))
    await lab.create(placed("p2", exactly("1/64Mi")))
    await lab.until("p2", unschedulable)
    await ask(lab, "p2", "500m/64Mi")
    seen = await lab.until("p2", is_ready)
    await lab.verify(seen)
    assert statuses(seen)["c1"]["allocatedResources"]["cpu"] == "500m"


async def test_resources_requested_by_a_deferred_resize_are_not_allocated_to_new_pods(lab: Lab) -> None:
    await lab.run(placed("p1", exactly("1/64Mi")), placed("p2", exactly("500m/64Mi")))
    await ask(lab, "p2", "1500m/64Mi")
    await lab.until("p2", deferred)
    await lab.create(placed("p3", exactly("200m/64Mi")))
    await lab.until("p3", unschedulable)
    await ask(lab, "p2", "500m/64Mi")
    await done(lab, "p2")
    await lab.until("p3", is_ready)


async def test_more_than_the_node_has_is_infeasible(lab: Lab) -> None:
    before = await lab.run(placed("p1", exactly("500m/64Mi")))
    await ask(lab, "p1", "3/64Mi")
    seen = await lab.until("p1", lambda obj: bool(obj and conditions(obj).get("PodResizePending")))
    reported = conditions(seen)["PodResizePending"]
    assert reported["reason"] == "Infeasible"
    assert reported["message"] == "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"
    assert statuses(seen) == statuses(before)
    # An infeasible resize reserves nothing either.
    await lab.run(placed("p2", exactly("1500m/64Mi")))
    await ask(lab, "p1", "400m/64Mi")
    await done(lab, "p1")


# --- deferred resizes -----------------------------------------------------------------------------------------------


async def test_a_deferred_resize_is_done_when_another_pod_shrinks(lab: Lab) -> None:
    await lab.run(placed("p1", exactly("500m/64Mi")), placed("p2", exactly("1200m/64Mi")))
    await ask(lab, "p1", "1/64Mi")
    seen = await lab.until("p1", deferred)
    reported = conditions(seen, *RESIZE)
    assert reported["PodResizePending"]["message"] == (
        "Node didn't have enough resource: cpu, requested: 1000, used: 1200, capacity: 2000"
    )
    assert (reported["PodResizePending"]["observedGeneration"], len(reported)) == (2, 1)
    assert statuses(seen)["c1"]["resources"] == exactly("500m/64Mi")
    await ask(lab, "p2", "800m/64Mi")
    await done(lab, "p1", "p2")


async def test_a_deferred_resize_is_done_when_another_pod_goes(lab: Lab) -> None:
    await lab.run(placed("p1", exactly("500m/64Mi")), placed("p2", exactly("1200m/64Mi")))
    await ask(lab, "p1", "1500m/64Mi")
    await lab.until("p1", deferred)
    await lab.delete("p2")
    await done(lab, "p1")


async def test_deferred_resizes_go_by_priority_then_class_then_age(lab: Lab) -> None:
    """Each time, the first pod releases as much as one of the others requests."""
    burst, grown = sizes("100m/32Mi", "500m/64Mi"), sizes("400m/32Mi", "500m/64Mi")
    await lab.run(
        placed("room", exactly("1500m/64Mi")),
        placed("older", burst),
        placed("younger", burst),
        placed("guaranteed", exactly("100m/32Mi")),
        placed("important", burst, priorityClassName="important"),
    )
    for name in ("older", "younger", "guaranteed", "important"):
        await ask(lab, name, exactly("400m/32Mi") if name == "guaranteed" else grown)
        await lab.until(name, deferred)
        # Conditions have whole seconds; the order of waiting must be visible in them.
        await asyncio.sleep(1.0)
    waiting = ["important", "guaranteed", "older", "younger"]
    for cpu in ("1300m", "1", "700m", "400m"):
        first = waiting.pop(0)
        await ask(lab, "room", f"{cpu}/64Mi")
        await done(lab, first, "room")
        assert [deferred(await lab.get(name)) for name in waiting] == [True] * len(waiting), first


async def test_a_refused_resize_does_not_hold_up_a_smaller_one_behind_it(lab: Lab) -> None:
    await lab.run(
        placed("room", exactly("1500m/64Mi")),
        placed("large", exactly("100m/32Mi"), priorityClassName="important"),
        placed("small", exactly("100m/32Mi")),
    )
    await ask(lab, "large", "1500m/32Mi")
    await lab.until("large", deferred)
    await ask(lab, "small", "300m/32Mi")
    await done(lab, "small")
    assert deferred(await lab.get("large"))


async def test_one_resize_frees_what_the_next_waits_for(lab: Lab) -> None:
    """p1 releases CPU for p2, whose resize then releases memory for p3."""
    await lab.run(
        placed("p1", exactly("1/400Mi")), placed("p2", exactly("500m/1000Mi")), placed("p3", exactly("400m/500Mi"))
    )
    await ask(lab, "p3", "400m/1000Mi")
    await lab.until("p3", deferred)
    await ask(lab, "p2", "1/500Mi")
    seen = await lab.until("p2", deferred)
    assert statuses(seen)["c1"]["resources"] == exactly("500m/1000Mi")
    await ask(lab, "p1", "500m/400Mi")
    await done(lab, "p1", "p2", "p3")


# --- critical pods --------------------------------------------------------------------------------------------------


async def test_a_critical_pods_resize_evicts_others(lab: Lab) -> None:
    critical = placed("critical", exactly("500m/64Mi"), priorityClassName="system-node-critical")
    await lab.run(critical, placed("lesser", exactly("1200m/64Mi")), placed("kept", exactly("100m/64Mi")))
    await ask(lab, "critical", "1500m/64Mi")
    await done(lab, "critical")
    gone = await lab.until("lesser", lambda seen: bool(seen and seen["status"]["phase"] == "Failed"))
    assert gone["status"]["reason"] == "Preempting"
    assert conditions(gone)["DisruptionTarget"]["status"] == "True"
    assert is_ready(await lab.get("kept"))
    assert len((await lab.client.list(POD, "default"))["items"]) == 3
