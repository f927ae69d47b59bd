"""Properties of every resize plan: legal at every prefix, complete at its end, nothing allocated twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from podfit.agent.actuation.actuator import allowed
from podfit.agent.decide.resize import kernel, settle
from podfit.agent.decide.resize.actuate import NotePod, SetContainer, SetPod, merged, plan
from podfit.agent.decide.resize.allocate import NodePolicy, decide
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.fake.node import changed
from podfit.agent.runtimes.values import BelowUsage, Limits, RuntimeFailure
from podfit.api.pods.resources import pod_requests, qos_class
from podfit.api.pods.room import Room, shortages
from podfit.api.quantity import Quantity
from podfit.api.resize.states import Actuated, Allocated, desired_of, effective, equal, resized
from podfit.api.resize.verdicts import Deferred, Granted, Infeasible, Unchanged

CPU = st.integers(1, 40).map(lambda n: n * 50)
MEMORY = st.integers(1, 40).map(lambda n: n * 16)


def cgroup(pod: dict[str, Any], qos: str) -> Limits:
    return kernel.pod_cgroup(Sized(pod, desired_of(pod)), qos)


@st.composite
def sizes(draw: st.DrawFn) -> dict[str, Any]:
    cpu, memory = draw(CPU), draw(MEMORY)
    return {
        "limits": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"},
        "requests": {"cpu": f"{draw(st.integers(1, cpu))}m", "memory": f"{draw(st.integers(1, memory))}Mi"},
    }


@st.composite
def resizes(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same pod before and after; all containers have limits, so that the pod's cgroup has them too."""
    count = draw(st.integers(1, 4))
    before = [{"name": f"c{n}", "resources": draw(sizes())} for n in range(count)]
    after = [{**entry, "resources": draw(st.one_of(st.just(entry["resources"]), sizes()))} for entry in before]
    meta = {"name": "p", "uid": "u"}
    return {"metadata": meta, "spec": {"containers": before}}, {"metadata": meta, "spec": {"containers": after}}


class Cgroups:
    """A pod's cgroups, as changed by steps."""

    def __init__(self, pod: dict[str, Any], qos: str) -> None:
        self.pod = cgroup(pod, qos)
        self.children = {
            container["name"]: kernel.container_limits(container["resources"])
            for container in pod["spec"]["containers"]
        }

    def do(self, step: Any) -> None:
        if isinstance(step, SetPod):
            self.pod = changed(self.pod, step.change)
        elif isinstance(step, SetContainer):
            self.children[step.name] = changed(self.children[step.name], step.change)

    def legal(self) -> bool:
        return all(
            sum(getattr(child, name) for child in self.children.values()) <= getattr(self.pod, name)
            for name in ("cpu_quota_us", "memory_bytes")
        )


def allocated(pod: dict[str, Any]) -> Allocated:
    desired = desired_of(pod)
    return Allocated(desired.containers, desired.pod)


def reports(pod: dict[str, Any]) -> Actuated:
    return Actuated(
        {container["name"]: effective(container["resources"], None) for container in pod["spec"]["containers"]}
    )


def plan_for(before: dict[str, Any], after: dict[str, Any], actuated: Actuated, now: Limits) -> Any:
    names = {container["name"] for container in after["spec"]["containers"]}
    return plan(after, qos_class(before), allocated(after), actuated, names, (), now)


@settings(max_examples=300)
@given(resizes())
def test_every_prefix_of_a_plan_is_legal_and_the_end_is_the_promise(pair: tuple[Any, Any]) -> None:
    before, after = pair
    qos = qos_class(before)
    if qos_class(after) != qos:
        return
    cgroups = Cgroups(before, qos)
    assert cgroups.legal()
    for step in plan_for(before, after, reports(before), cgroups.pod).steps:
        cgroups.do(step)
        assert cgroups.legal(), step
    assert cgroups.pod == cgroup(after, qos)
    assert cgroups.children == Cgroups(after, qos).children


@settings(max_examples=200)
@given(resizes(), st.integers(0, 20))
def test_a_plan_broken_off_anywhere_is_finished_by_the_next(pair: tuple[Any, Any], cut: int) -> None:
    before, after = pair
    qos = qos_class(before)
    if qos_class(after) != qos:
        return
    cgroups, known = Cgroups(before, qos), dict(reports(before).containers)
    for step in plan_for(before, after, reports(before), cgroups.pod).steps[:cut]:
        cgroups.do(step)
        if isinstance(step, SetContainer):
            known[step.name] = step.after
    names = set(known)
    rest = plan(after, qos, allocated(after), Actuated(known), names, (), cgroups.pod, unverified=True)
    for step in rest.steps:
        cgroups.do(step)
        assert cgroups.legal()
    assert (cgroups.pod, cgroups.children) == (
        cgroup(after, qos),
        Cgroups(after, qos).children,
    )


@settings(max_examples=300)
@given(resizes(), st.lists(st.sampled_from([None, None, RuntimeFailure("no"), BelowUsage(2, 1)]), max_size=20))
def test_a_plan_whose_steps_fail_stays_legal_and_notes_only_what_was_done(
    pair: tuple[Any, Any], outcomes: list[RuntimeFailure | None]
) -> None:
    before, after = pair
    qos = qos_class(before)
    if qos_class(after) != qos:
        return
    cgroups, known = Cgroups(before, qos), dict(reports(before).containers)
    failures: list[tuple[Any, RuntimeFailure]] = []
    for number, step in enumerate(plan_for(before, after, reports(before), cgroups.pod).steps):
        if failures and not allowed(step, failures):
            continue
        error = outcomes[number] if number < len(outcomes) else None
        if error is not None:
            failures.append((step, error))
            continue
        cgroups.do(step)
        assert cgroups.legal()
        if isinstance(step, SetContainer):
            known[step.name] = merged(known[step.name], step.after, step.resource)
    assert cgroups.children == {name: kernel.container_limits(sizes) for name, sizes in known.items()}
    shrunk = [item for item, _ in failures if isinstance(item, SetPod) or item.direction == "shrink"]
    if not failures:
        assert not plan_for(before, after, Actuated(known), cgroups.pod)
    elif shrunk:
        skipped = {item.name for item in shrunk if isinstance(item, SetContainer)}
        for name in known.keys() - skipped - {item.name for item, _ in failures if isinstance(item, SetContainer)}:
            left = plan(after, qos, allocated(after), Actuated(known), {name}, (), cgroups.pod).steps
            assert not [item for item in left if isinstance(item, SetContainer) and item.direction == "shrink"]


@settings(max_examples=200)
@given(resizes())
def test_after_the_last_step_nothing_is_left_to_do(pair: tuple[Any, Any]) -> None:
    before, after = pair
    qos = qos_class(before)
    if qos_class(after) != qos:
        return
    cgroups, known = Cgroups(before, qos), dict(reports(before).containers)
    for step in plan_for(before, after, reports(before), cgroups.pod).steps:
        cgroups.do(step)
        assert not isinstance(step, NotePod)
        if isinstance(step, SetContainer):
            known[step.name] = step.after
    assert not plan_for(before, after, Actuated(known), cgroups.pod)
    assert not settle.in_progress(after, allocated(after), Actuated(known), set(known))


@settings(max_examples=300)
@given(st.lists(resizes(), min_size=1, max_size=6), st.integers(500, 6000), st.integers(64, 2048))
def test_allocations_never_exceed_the_node_and_granting_is_idempotent(
    wanted: list[tuple[Any, Any]], cpu: int, memory: int
) -> None:
    space = {"cpu": Quantity.of_milli(cpu), "memory": Quantity.of_units(memory << 20)}
    held: dict[int, Allocated] = {}

    def room(but: int) -> Room:
        used: dict[str, Quantity] = {}
        for number, sized in held.items():
            if number != but:
                for name, quantity in pod_requests(resized(wanted[number][0], sized)).items():
                    used[name] = used[name] + quantity if name in used else quantity
        return Room(space, used)

    for number, (before, _) in enumerate(wanted):
        if not shortages(pod_requests(before), room(number)):
            held[number] = allocated(before)
    for number in list(held):
        after = wanted[number][1]
        verdict = decide(after, desired_of(after), held[number], room(number), qos_class(after), NodePolicy())
        if verdict == Granted():
            held[number] = allocated(after)
            again = decide(after, desired_of(after), held[number], room(number), qos_class(after), NodePolicy())
            assert again != Granted() and equal(held[number], desired_of(after))
    total = [pod_requests(resized(wanted[number][0], sized)) for number, sized in held.items()]
    assert sum(entry["cpu"].milli for entry in total) <= cpu
    assert sum(entry["memory"].value for entry in total) <= memory << 20


@settings(max_examples=500)
@given(
    resizes(),
    st.tuples(st.integers(0, 6000), st.integers(0, 2048)),
    st.tuples(st.integers(0, 6000), st.integers(0, 2048)),
    st.sampled_from([None, ("Evicted", "The node had condition: [DiskPressure]. ")]),
)
def test_only_a_request_that_grows_is_a_reason_to_refuse(
    pair: tuple[Any, Any], space: tuple[int, int], used: tuple[int, int], pressure: tuple[str, str] | None
) -> None:
    """Whatever the node has left, even less than its pods hold."""
    before, after = pair
    room = Room(
        {"cpu": Quantity.of_milli(space[0]), "memory": Quantity.of_units(space[1] << 20)},
        {"cpu": Quantity.of_milli(used[0]), "memory": Quantity.of_units(used[1] << 20)},
    )
    old, new = pod_requests(before), pod_requests(after)
    grown = {name for name in new if new[name] > old[name]}
    held, desired = allocated(before), desired_of(after)
    verdict = decide(after, desired, held, room, qos_class(before), NodePolicy(), kept_out=pressure)
    if equal(desired, held):
        assert verdict == Unchanged()
    elif not grown:
        assert verdict == Granted()
    elif isinstance(verdict, Deferred):
        assert {short.resource for short in verdict.missing} <= grown
    elif isinstance(verdict, Infeasible):
        assert any(f"capacity: {name}," in verdict.message for name in grown)


@given(st.integers(11, 64_000), st.integers(0, 9999))
def test_a_quota_that_systemd_rounded_up_is_shown_as_it_was_requested(milli: int, above_us: int) -> None:
    limits = {"cpu": kernel.cpu_text(milli), "memory": "64Mi"}
    size = {"limits": limits, "requests": {"cpu": "10m", "memory": "64Mi"}}
    exact = kernel.container_limits(size)
    rounded = structs.replace(exact, cpu_quota_us=-(-(exact.cpu_quota_us or 0) // 1000) * 1000)
    assert settle.container_resources(size, size, rounded) == size
    assert kernel.agrees(size, rounded)
    # Any other quota is what the kernel has, and reported as such.
    other = structs.replace(exact, cpu_quota_us=(rounded.cpu_quota_us or 0) + 100 + above_us)
    assert not kernel.agrees(size, other)
    shown = settle.container_resources(size, size, other)["limits"]["cpu"]
    assert Quantity.parse(shown).milli == kernel.milli_of_quota(other.cpu_quota_us or 0)
