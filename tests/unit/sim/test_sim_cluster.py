"""The simulated cluster: feedback of limits, resizes, evictions and faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.scenarios import GIB, HOUR, MIB, a_scenario, a_workload, level, node_down

from podfit.sim import invariants
from podfit.sim.cluster.pods import PENDING, RUNNING
from podfit.sim.cluster.state import Cluster
from podfit.sim.cluster.usage import shared
from podfit.sim.run import Run, phases, simulate
from podfit.sim.scenario.model import (
    BURSTS,
    DAILY,
    IN_PLACE,
    IN_PLACE_OR_RECREATE,
    INITIAL,
    LEAK,
    OFF,
    RAMP,
    RECREATE,
    Autoscaler,
    Curve,
    Fault,
    Scenario,
    Size,
)


def stepped(scenario: Scenario, steps: int) -> Cluster:
    """The cluster after so many steps."""
    cluster, order = Cluster(scenario), phases(scenario)
    for step in range(steps):
        cluster.step, cluster.now = step, step * scenario.step_s
        for phase in order:
            phase(cluster)
        invariants.check(cluster, cluster.now - scenario.step_s)
    return cluster


def evictions(run: Run) -> dict[str, int]:
    return {cause: int(counts.sum()) for cause, counts in run.tally.evictions.items() if counts.any()}


# --- usage


def test_memory_above_the_limit_kills_the_container_again_and_again() -> None:
    hungry = a_workload(limits=Size(memory=512 * MIB), memory_curve=level(600.0 * MIB))
    run = simulate(a_scenario(hungry))
    assert run.tally.kills[0] > 20
    assert run.tally.quality("memory").days_short == 1.0


def test_restarts_back_off_up_to_five_minutes() -> None:
    hungry = a_workload(limits=Size(memory=512 * MIB), memory_curve=level(600.0 * MIB))
    cluster = stepped(a_scenario(hungry), 4)
    assert cluster.pods.restarts[0] == 4
    assert cluster.pods.until[0] == 4 * 300.0 + 80.0
    late = stepped(a_scenario(hungry), 20)
    assert late.pods.until[0] - late.now <= 300.0 + 300.0


def test_a_leak_starts_from_the_beginning_after_a_kill() -> None:
    leaky = a_workload(limits=Size(memory=512 * MIB), memory_curve=Curve(LEAK, 256.0 * MIB, rate=256 * MIB / HOUR))
    run = simulate(a_scenario(leaky, duration_s=10 * HOUR))
    assert 8 <= run.tally.kills[0] <= 10


def test_throttled_work_is_done_later() -> None:
    bursty = a_workload(
        cpu=500, limits=Size(cpu=1000), cpu_curve=Curve(BURSTS, 0.1, 1.5, every_s=4 * HOUR, over_s=600.0)
    )
    run = simulate(a_scenario(bursty, duration_s=48 * HOUR))
    quality = run.tally.quality("cpu")
    assert quality.short_samples > 10
    assert quality.cut == pytest.approx(0.0, abs=1e-9)


def test_work_that_waits_for_more_than_an_hour_is_rejected() -> None:
    overloaded = a_workload(cpu=500, limits=Size(cpu=500), cpu_curve=level(1.0))
    run = simulate(a_scenario(overloaded, duration_s=24 * HOUR))
    assert run.tally.quality("cpu").cut == pytest.approx(0.5, abs=0.03)


def test_a_full_node_shares_its_cpu_by_requests() -> None:
    wanted = np.array([4.0, 4.0, 0.5, 1.0])
    got = shared(wanted, np.array([1000, 3000, 1000, 100]), np.array([0, 0, 0, 1]), np.array([4.5, 2.0]))
    assert got == pytest.approx([1.0, 3.0, 0.5, 1.0])


def test_a_node_out_of_memory_evicts_a_pod_above_its_request() -> None:
    modest = a_workload("modest", replicas=2, memory=2 * GIB, memory_curve=level(1.5 * GIB), priority=0)
    greedy = a_workload("greedy", replicas=2, memory=256 * MIB, memory_curve=level(3.0 * GIB), priority=10)
    run = simulate(a_scenario(modest, greedy, nodes=1))
    assert evictions(run)["memoryPressure"] > 0
    assert run.tally.evictions["memoryPressure"].tolist()[0] == 0


# --- scheduling


def test_pods_without_room_wait_and_are_counted() -> None:
    run = simulate(a_scenario(a_workload(replicas=10, cpu=1000), nodes=2, cpu=4000))
    assert run.tally.placements == 8
    assert run.tally.pending_s.sum() == 2 * 4 * HOUR
    assert run.tally.longest_wait_s == 4 * HOUR


def test_a_more_important_pod_takes_the_place_of_a_less_important_one() -> None:
    low, high = a_workload("low", replicas=4, cpu=1000), a_workload("high", replicas=2, cpu=1000, priority=100)
    scenario = a_scenario(low, nodes=1)
    late = replace(scenario, workloads=(low, high))
    cluster = stepped(late, 2)
    states = [cluster.pods.state[cluster.pods.workload == at] for at in (0, 1)]
    assert (states[1] == RUNNING).all()
    assert (states[0] == PENDING).sum() == 2


def test_a_node_selector_is_kept() -> None:
    run = simulate(a_scenario(a_workload(replicas=2, node_selector={"disk": "ssd"})))
    assert run.tally.placements == 0


# --- resizes


GROWING = Curve(RAMP, 0.2, 1.5, over_s=3 * HOUR)


def growing(mode: str, replicas: int = 4) -> Scenario:
    """CPU rises slowly; the nodes have room for it."""
    web = a_workload(replicas=replicas, cpu=300, limits=Size(cpu=3000), cpu_curve=GROWING, autoscaler=Autoscaler(mode))
    return a_scenario(web, nodes=4, duration_s=6 * HOUR, history_s=2 * HOUR, policy="krr")


def test_in_place_avoids_the_evictions_that_recreating_makes() -> None:
    in_place, recreated = simulate(growing(IN_PLACE_OR_RECREATE)), simulate(growing(RECREATE))
    assert evictions(in_place) == {}
    assert in_place.tally.resizes.sum() > 4
    assert evictions(recreated)["updater"] > 4
    assert recreated.tally.resizes.sum() == 0
    assert in_place.tally.down_s < recreated.tally.down_s


@pytest.mark.parametrize("mode", [OFF, INITIAL])
def test_modes_that_do_not_update_leave_running_pods_alone(mode: str) -> None:
    run = simulate(growing(mode))
    assert run.tally.resizes.sum() == 0 and evictions(run) == {}


def test_initial_sizes_new_pods_and_off_does_not() -> None:
    sizes = {mode: simulate(growing(mode)).tally.sums["cpu"].size_curve[0, 0] for mode in (OFF, INITIAL)}
    assert sizes[OFF] == pytest.approx(0.3) and sizes[INITIAL] < 0.3


def test_a_single_replica_is_not_touched_unless_its_autoscaler_allows_it() -> None:
    assert simulate(growing(IN_PLACE_OR_RECREATE, replicas=1)).tally.resizes.sum() == 0
    alone = growing(IN_PLACE_OR_RECREATE, replicas=1)
    [web] = alone.workloads
    allowed = replace(alone, workloads=(replace(web, autoscaler=Autoscaler(IN_PLACE_OR_RECREATE, min_replicas=1)),))
    assert simulate(allowed).tally.resizes.sum() > 0


def crowded(mode: str) -> Scenario:
    """Two nodes of four cores, and pods that want to grow beyond what they have left."""
    web = a_workload(replicas=4, cpu=300, limits=Size(cpu=3000), cpu_curve=GROWING, autoscaler=Autoscaler(mode))
    still = a_workload("still", replicas=2, cpu=2000)
    return a_scenario(web, still, nodes=2, duration_s=6 * HOUR, history_s=2 * HOUR, policy="krr")


def test_a_resize_without_room_is_deferred_and_waits_in_mode_in_place() -> None:
    run = simulate(crowded(IN_PLACE))
    assert run.tally.deferred_s.sum() > HOUR
    assert evictions(run) == {}


def test_a_deferred_resize_becomes_an_eviction_after_five_minutes_in_mode_in_place_or_recreate() -> None:
    run = simulate(crowded(IN_PLACE_OR_RECREATE))
    assert evictions(run)["updater"] > 0
    assert run.tally.deferred_s.sum() < simulate(crowded(IN_PLACE)).tally.deferred_s.sum()


def test_a_deferred_resize_is_granted_when_room_is_freed() -> None:
    web = a_workload(replicas=2, cpu=300, limits=Size(cpu=3000), cpu_curve=GROWING, autoscaler=Autoscaler(IN_PLACE))
    falling = Curve(DAILY, 0.1, 1.9, peak_s=0.0)
    other = a_workload("other", replicas=2, cpu=2000, limits=Size(cpu=4000), cpu_curve=falling)
    other = replace(other, autoscaler=Autoscaler(IN_PLACE))
    scenario = a_scenario(web, other, nodes=2, cpu=2600, duration_s=20 * HOUR, history_s=2 * HOUR, policy="window")
    run = simulate(scenario)
    assert run.tally.deferred_s[0] > 0
    assert run.tally.sums["cpu"].size_curve[0, -1] > 1.5


def test_a_request_beyond_the_nodes_capacity_is_infeasible() -> None:
    huge = a_workload(replicas=2, cpu=300, cpu_curve=Curve(RAMP, 0.2, 3.9, over_s=2 * HOUR))
    huge = replace(huge, autoscaler=Autoscaler(IN_PLACE, least=Size(cpu=9000)))
    run = simulate(a_scenario(huge, policy="krr"))
    assert run.tally.infeasible == 2
    assert run.tally.resizes.sum() == 0


# --- faults


def test_pods_of_a_node_that_fails_move_after_six_minutes() -> None:
    run = simulate(a_scenario(a_workload(replicas=6), nodes=3, faults=(node_down(HOUR, 2 * HOUR),)))
    assert evictions(run) == {"nodeFailure": 2}
    assert run.tally.quality("cpu").samples == 6 * 48 - 2 * 2


def test_pods_of_a_node_that_comes_back_soon_start_again_where_they_were() -> None:
    run = simulate(a_scenario(a_workload(replicas=6), nodes=3, faults=(node_down(HOUR, 300.0),)))
    assert evictions(run) == {}
    assert run.tally.restarts.sum() == 2


@pytest.mark.parametrize("kind", ["metrics-gap", "recommender-down"])
def test_nothing_is_resized_without_metrics_or_recommender(kind: str) -> None:
    scenario = growing(IN_PLACE_OR_RECREATE)
    blind = replace(scenario, history_s=0.0, faults=(Fault(kind, 0.0, 6 * HOUR),))
    assert simulate(blind).tally.resizes.sum() == 0
    assert simulate(replace(blind, faults=())).tally.resizes.sum() > 0


# --- invariants


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("cpu", 5000, "more CPU is allocated"),
        ("memory", 9 * GIB, "more memory is allocated"),
        ("node", -1, "a pending pod has a node, or a running one has none"),
        ("state", 9, "an unknown state"),
        ("want_cpu", 100, "the allocation of a settled pod differs from its requests"),
        ("backlog", -1.0, "work is negative"),
    ],
)
def test_a_cluster_that_contradicts_itself_is_noticed(field: str, value: float, words: str) -> None:
    cluster = stepped(a_scenario(a_workload(replicas=2)), 3)
    getattr(cluster.pods, field)[0] = value
    with pytest.raises(invariants.InvariantViolated, match=words):
        invariants.check(cluster, cluster.now - 300)


def test_a_stopped_clock_is_detected() -> None:
    cluster = stepped(a_scenario(a_workload()), 2)
    with pytest.raises(invariants.InvariantViolated, match="time did not advance"):
        invariants.check(cluster, cluster.now)
