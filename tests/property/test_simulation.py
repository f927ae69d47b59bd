"""Any scenario: the same seed gives the same run, invariants hold, and arrays decide as objects do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from podfit.api.resize.verdicts import Granted, Unchanged
from podfit.scheduler.decide.board import Placed
from podfit.sim.autoscaler.updating import CONFIG, difference, disturbable, worth
from podfit.sim.cluster.objects import Template
from podfit.sim.cluster.placing import schedule
from podfit.sim.cluster.pods import PENDING
from podfit.sim.cluster.resizing import roomy, verdict_on
from podfit.sim.cluster.state import Cluster
from podfit.sim.report.tally import fragmentation
from podfit.sim.run import Run, phases, simulate
from podfit.sim.scenario.model import (
    BURSTS,
    CONSTANT,
    DAILY,
    FAULTS,
    LEAK,
    MODES,
    NODE_DOWN,
    RAMP,
    Autoscaler,
    Curve,
    Fault,
    NodeGroup,
    Scenario,
    Size,
    Workload,
)
from podfit.vpa.model.objects.pods import resource_list
from podfit.vpa.model.objects.recommended import Recommended
from podfit.vpa.policies.base import RESOURCES
from podfit.vpa.updater.decide.groups import Group
from podfit.vpa.updater.decide.priority import priority_of, worth_updating

MIB, HOUR = 2**20, 3600.0


def curves(low: float, high: float) -> some.SearchStrategy[Curve]:
    """Usage around the request: sometimes far above it."""
    kinds = some.sampled_from((CONSTANT, DAILY, BURSTS, RAMP, LEAK))
    levels = some.floats(low, high)
    times = some.floats(600.0, 2 * HOUR)
    rate = some.floats(0.0, high / HOUR)
    noise = some.sampled_from((0.0, 0.1, 0.5))
    return some.builds(Curve, kinds, levels, levels, times, times, times, rate, noise)


@some.composite
def workloads(draw: some.DrawFn, name: str) -> Workload:
    cpu, memory = draw(some.integers(50, 1500)), draw(some.integers(64, 1500)) * MIB
    factor = draw(some.sampled_from((None, 1, 2)))
    limits = Size() if factor is None else Size(cpu * factor, memory * factor)
    scaled = Autoscaler(
        draw(some.sampled_from(MODES)),
        draw(some.sampled_from(("krr", "default", "window"))),
        most=draw(some.sampled_from((Size(), Size(2000, 2048 * MIB), Size(9000, None)))),
        min_replicas=draw(some.integers(1, 3)),
    )
    return Workload(
        name,
        draw(some.integers(1, 6)),
        cpu,
        memory,
        limits,
        draw(curves(0.02, 2.5)),
        draw(curves(20.0 * MIB, 2500.0 * MIB)),
        scaled,
        draw(some.sampled_from((0, 0, 10))),
        startup_s=draw(some.sampled_from((0.0, 10.0, 900.0))),
    )


@some.composite
def scenarios(draw: some.DrawFn) -> Scenario:
    nodes = (
        NodeGroup("small", draw(some.integers(1, 3)), 2000, 2048 * MIB, pods=draw(some.integers(1, 20))),
        NodeGroup("large", draw(some.integers(1, 2)), 4000, 4096 * MIB),
    )
    count = draw(some.integers(1, 3))
    faults = some.builds(
        Fault,
        some.sampled_from((*FAULTS, NODE_DOWN)),
        some.floats(0.0, 4 * HOUR),
        some.floats(60.0, 2 * HOUR),
        some.sampled_from(("", "small")),
        some.integers(1, 4),
    )
    return Scenario(
        nodes,
        tuple(draw(workloads(f"w{number}")) for number in range(count)),
        tuple(draw(some.lists(faults, max_size=3))),
        duration_s=5 * HOUR,
        step_s=draw(some.sampled_from((300.0, 600.0))),
        history_s=draw(some.sampled_from((0.0, 2 * HOUR))),
        seed=draw(some.integers(0, 2**40)),
    )


def seen(run: Run) -> Any:
    tally = run.tally
    return (
        [tally.quality(resource) for resource in RESOURCES],
        [counts.tolist() for counts in tally.evictions.values()],
        tally.kills.tolist(),
        tally.resizes.tolist(),
        tally.pending_s.tolist(),
        tally.deferred_s.tolist(),
        tally.fragmented,
        [tally.sums[resource].size_curve.tobytes() for resource in RESOURCES],
    )


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_invariants_hold_after_every_step_and_the_same_seed_gives_the_same_run(scenario: Scenario) -> None:
    first = simulate(scenario)
    assert first.checks == scenario.steps
    assert repr(seen(first)) == repr(seen(simulate(scenario)))


@settings(max_examples=30, deadline=None)
@given(scenarios())
def test_every_pod_is_in_one_place_in_every_step(scenario: Scenario) -> None:
    """Samples and pending time together do not exceed the lifetime of all pods; without faults the rest is
    starting up.
    """
    tally = simulate(replace(scenario, faults=())).tally
    whole = scenario.pods * scenario.steps
    pending = round(float(tally.pending_s.sum()) / scenario.step_s)
    assert tally.quality("cpu").samples + pending <= whole
    assert tally.quality("cpu").samples == tally.quality("memory").samples


@settings(max_examples=30, deadline=None)
@given(scenarios())
def test_no_pod_waits_that_the_scheduler_would_place(scenario: Scenario) -> None:
    """Pods of a kind that was refused are not tried again in a pass, because the result would be the same."""
    plain = tuple(replace(workload, priority=0) for workload in scenario.workloads)
    scenario = replace(scenario, workloads=plain, duration_s=2 * HOUR)
    cluster = Cluster(scenario)
    for step in range(scenario.steps):
        cluster.step, cluster.now = step, step * scenario.step_s
        for phase in phases(scenario):
            phase(cluster)
            if phase is schedule:
                waiting = np.flatnonzero(cluster.pods.state == PENDING).tolist()
                answers = [cluster.nodes.board.place(cluster.pod_object(pod)) for pod in waiting]
                assert not [answer for answer in answers if isinstance(answer, Placed)]


# --- arrays decide as objects do

SIZES = some.tuples(some.integers(1, 3000), some.integers(1, 3000).map(lambda mib: mib * MIB))


def template(limits: Size = Size()) -> Template:
    return Template(Workload("w", 1, 100, 100 * MIB, limits, Curve(CONSTANT), Curve(CONSTANT)))


@settings(max_examples=300, deadline=None)
@given(some.lists(some.tuples(SIZES, SIZES), min_size=1, max_size=6), SIZES, some.randoms(use_true_random=False))
def test_where_all_growth_fits_the_agent_grants_every_resize_in_any_order(
    resizes: list[tuple[tuple[int, int], tuple[int, int]]], spare: tuple[int, int], random: Any
) -> None:
    held = [sum(own[at] for own, _ in resizes) for at in (0, 1)]
    total = (held[0] + spare[0], held[1] + spare[1])
    node = np.zeros(len(resizes), np.int64)
    fits = np.ones(len(resizes), np.bool_)
    for at in (0, 1):
        growth = np.array([wanted[at] - own[at] for own, wanted in resizes])
        fits &= roomy(node, growth, np.array([spare[at]]))
    order = list(resizes)
    random.shuffle(order)
    verdicts = []
    for own, wanted in order:
        verdict = verdict_on(template(), own, wanted, total, (held[0] - own[0], held[1] - own[1]))
        verdicts.append(verdict)
        if isinstance(verdict, Granted):
            held = [held[at] - own[at] + wanted[at] for at in (0, 1)]
    if fits.all():
        assert all(isinstance(verdict, Granted | Unchanged) for verdict in verdicts)
    if len(resizes) == 1 and not fits.all():
        assert not isinstance(verdicts[0], Granted)


@settings(max_examples=300, deadline=None)
@given(SIZES, SIZES, SIZES, SIZES)
def test_a_resize_without_an_increase_is_always_granted(
    own: tuple[int, int], wanted: tuple[int, int], total: tuple[int, int], others: tuple[int, int]
) -> None:
    less = (min(own[0], wanted[0]), min(own[1], wanted[1]))
    assert isinstance(verdict_on(template(), own, less, total, others), Granted | Unchanged)


@settings(max_examples=300, deadline=None)
@given(
    SIZES,
    SIZES,
    SIZES,
    SIZES,
    some.sampled_from((0.0, HOUR, 12 * HOUR, 50 * HOUR)),
    some.booleans(),
)
def test_pods_are_worth_an_update_as_the_updater_decides(
    own: tuple[int, int],
    target: tuple[int, int],
    below: tuple[int, int],
    above: tuple[int, int],
    age_s: float,
    oomed: bool,
) -> None:
    requests, targets = ([np.array([amount]) for amount in pair] for pair in (own, target))
    low, high = (
        tuple(pick(*pair) for pair in zip(target, bound, strict=True)) for pick, bound in ((min, below), (max, above))
    )
    out = np.array([any(request < low[at] or request > high[at] for at, request in enumerate(own))])
    differs = difference(requests[0], requests[1], targets[0], targets[1])
    found = bool(worth(out, differs, np.array([age_s]), np.array([oomed]))[0])

    pod: dict[str, Any] = template().pod(0, *own)
    pod["status"] = {"startTime": "1970-01-02T00:00:00Z"}
    if oomed:
        ended = {"reason": "OOMKilled", "startedAt": "1970-01-02T00:00:00Z", "finishedAt": "1970-01-02T00:01:00Z"}
        pod["status"]["containerStatuses"] = [{"name": "main", "lastState": {"terminated": ended}}]
    amounts = [resource_list({"cpu": f"{cpu}m", "memory": str(memory)}) for cpu, memory in (target, low, high)]
    entry = Recommended("main", target=amounts[0], lower=amounts[1], upper=amounts[2], uncapped=amounts[0])
    priority = priority_of(pod, [entry])
    assert found == worth_updating(pod, {}, priority, 86400.0 + age_s, CONFIG)
    assert np.isclose(differs[0], priority.difference)


@given(some.integers(1, 40), some.integers(0, 40))
def test_as_many_replicas_are_disturbed_as_the_updaters_budget_allows(configured: int, running: int) -> None:
    group = Group(configured, int(configured * CONFIG.eviction_tolerance), 0, running, 0)
    while group.disruptable and group.evicted < 100:
        group.evicted += 1
    assert group.evicted == int(disturbable(np.array([configured]), np.array([running]))[0])


@given(some.lists(SIZES, min_size=1, max_size=8), SIZES)
def test_fragmentation_is_a_part_of_the_free_room(free: list[tuple[int, int]], size: tuple[int, int]) -> None:
    cpu, memory = (np.array(values, np.int64) for values in zip(*free, strict=True))
    found = fragmentation(cpu, memory, float(size[0]), float(size[1]))
    assert 0.0 <= found <= 1.0
    if len(free) == 1:
        assert found == 0.0
