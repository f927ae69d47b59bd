"""The steps that apply the allocation to the kernel, and their order."""

from __future__ import annotations

from typing import Any

from podfit.agent.decide.resize.actuate import (
    GROW,
    SHRINK,
    MemoryCheck,
    NotePod,
    SetContainer,
    SetPod,
    below_usage,
    merged,
    pending,
    plan,
)
from podfit.agent.runtimes.values import BelowUsage, Limits, LimitsChange
from podfit.api.resize.states import Actuated, Allocated

MI = 1 << 20


def size(cpu: str, memory: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}


def pod(*names: str, **container: Any) -> dict[str, Any]:
    containers = [{"name": name, "resources": size("1", "64Mi"), **container} for name in names]
    return {"metadata": {"uid": "u"}, "spec": {"containers": containers}}


def planned(body: dict[str, Any], allocated: dict[str, Any], actuated: dict[str, Any], now: Limits, **more: Any) -> Any:
    names = [container["name"] for container in body["spec"]["containers"]]
    running = more.pop("running", names)
    return plan(body, "Guaranteed", Allocated(allocated), Actuated(actuated), running, (), now, **more)


def order(steps: tuple[Any, ...]) -> list[tuple[str, str, str]]:
    return [(step.resource, getattr(step, "name", "pod"), step.direction) for step in steps]


def test_nothing_differs_nothing_is_planned() -> None:
    same = {"a": size("1", "64Mi")}
    assert not planned(pod("a"), same, same, Limits(1024, 100_000, 64 * MI))


def test_the_pod_grows_before_its_containers_and_shrinks_after_them() -> None:
    grown = planned(pod("a"), {"a": size("2", "64Mi")}, {"a": size("1", "64Mi")}, Limits(1024, 100_000, 64 * MI))
    assert order(grown.steps) == [("cpu", "pod", GROW), ("cpu", "pod", GROW), ("cpu", "a", GROW)]
    shrunk = planned(pod("a"), {"a": size("1", "64Mi")}, {"a": size("2", "64Mi")}, Limits(2048, 200_000, 64 * MI))
    assert order(shrunk.steps) == [("cpu", "a", SHRINK), ("cpu", "pod", SHRINK), ("cpu", "pod", SHRINK)]


def test_memory_comes_before_cpu_and_shrinking_containers_before_growing_ones() -> None:
    allocated = {"a": size("2", "96Mi"), "b": size("1", "32Mi")}
    found = planned(
        pod("a", "b"), allocated, {"a": size("1", "64Mi"), "b": size("2", "64Mi")}, Limits(3072, 300_000, 128 * MI)
    )
    assert order(found.steps) == [
        ("memory", "b", SHRINK),
        ("memory", "a", GROW),
        ("cpu", "b", SHRINK),
        ("cpu", "a", GROW),
    ]


def test_limits_that_fall_are_checked_against_usage_and_those_that_grow_are_not() -> None:
    shrunk = planned(pod("a"), {"a": size("1", "32Mi")}, {"a": size("1", "64Mi")}, Limits(1024, 100_000, 64 * MI))
    assert shrunk.checks == (MemoryCheck("", 32 * MI), MemoryCheck("a", 32 * MI))
    grown = planned(pod("a"), {"a": size("1", "96Mi")}, {"a": size("1", "64Mi")}, Limits(1024, 100_000, 64 * MI))
    assert grown.checks == ()


def test_a_restart_is_planned_alone() -> None:
    body = pod("a", resizePolicy=[{"resourceName": "memory", "restartPolicy": "RestartContainer"}])
    found = planned(body, {"a": size("2", "96Mi")}, {"a": size("1", "64Mi")}, Limits(1024, 100_000, 64 * MI))
    assert (found.restart, found.steps) == (("a",), ())
    cpu_only = planned(body, {"a": size("2", "64Mi")}, {"a": size("1", "64Mi")}, Limits(1024, 100_000, 64 * MI))
    assert cpu_only.restart == () and cpu_only.steps


def test_a_stopped_container_has_no_step() -> None:
    found = planned(
        pod("a"), {"a": size("2", "64Mi")}, {"a": size("1", "64Mi")}, Limits(1024, 100_000, 64 * MI), running=()
    )
    assert not found
    assert pending(pod("a"), Allocated({"a": size("2", "64Mi")}), Actuated({}), ()) == []


def test_a_unverified_pod_is_compared_though_no_container_changes() -> None:
    same = {"a": size("1", "64Mi")}
    found = planned(pod("a"), same, same, Limits(1024, 50_000, 64 * MI), unverified=True)
    assert found.steps == (SetPod("cpu", GROW, LimitsChange(cpu_quota_us=100_000)),)


def test_an_update_of_memory_carries_the_cpu_that_was_applied_last() -> None:
    found = planned(pod("a"), {"a": size("2", "96Mi")}, {"a": size("1", "64Mi")}, Limits(1024, 100_000, 64 * MI))
    memory = next(step for step in found.steps if isinstance(step, SetContainer) and step.resource == "memory")
    assert memory.change == LimitsChange(cpu_shares=1024, cpu_quota_us=100_000, memory_bytes=96 * MI)
    assert memory.after == {"requests": {"cpu": "1", "memory": "96Mi"}, "limits": {"cpu": "1", "memory": "96Mi"}}


def test_pod_level_sizes_are_noted_after_each_resource() -> None:
    body = pod("a")
    level = {"limits": {"cpu": "4", "memory": "128Mi"}}
    body["spec"]["resources"] = level
    same = {"a": size("1", "64Mi")}
    found = plan(
        body,
        "Guaranteed",
        Allocated(same, level),
        Actuated(same, {"limits": {"cpu": "2"}}),
        ("a",),
        (),
        Limits(2, 1, 1),
    )
    noted = [step for step in found.steps if isinstance(step, NotePod)]
    assert [step.after for step in noted] == [{"limits": {"cpu": "2", "memory": "128Mi"}}, level]


def test_one_resource_is_merged_and_the_others_stay() -> None:
    assert merged(size("1", "1Mi"), {"limits": {"cpu": "2"}}, "cpu") == {
        "limits": {"cpu": "2", "memory": "1Mi"},
        "requests": {"memory": "1Mi"},
    }


def test_limits_below_usage_are_listed() -> None:
    first = (MemoryCheck("a", 10), BelowUsage(12, 10))
    assert below_usage([first]) == (
        'cannot decrease memory limits: attempting to set container "a" memory limit (10) below current usage (12)'
    )
    assert below_usage([first, (MemoryCheck("", 10), BelowUsage(12, 10, 3))]).endswith(
        "attempting to set pod memory limit (10) below current usage (12), 3 of it held by processes of the container "
        "runtime in the pod's cgroup]"
    )
