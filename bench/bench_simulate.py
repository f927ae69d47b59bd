"""Measures how fast a cluster is simulated: pod-days per second of CPU time, the ratio to real time, and peak memory.

python -m bench.bench_simulate [--nodes 500] [--pods 15000] [--policy default]
"""

from __future__ import annotations

import argparse
import resource
import time

from podfit.sim.run import simulate
from podfit.sim.scenario.model import (
    BURSTS,
    CONSTANT,
    DAILY,
    IN_PLACE_OR_RECREATE,
    LEAK,
    NODE_DOWN,
    Autoscaler,
    Curve,
    Fault,
    NodeGroup,
    Scenario,
    Size,
    Workload,
)

MIB = 2**20
REPLICAS = 100


def workload(number: int, policy: str) -> Workload:
    """Four equal groups of workloads: daily cycle, bursts, leaks, constant. Sizes differ between workloads."""
    cpu, memory = 200 + 10 * (number % 40), (256 + 16 * (number % 50)) * MIB
    cores = cpu / 1000
    curves = (
        Curve(DAILY, 0.2 * cores, 0.9 * cores, peak_s=3600.0 * (number % 24), noise=0.1),
        Curve(BURSTS, 0.3 * cores, 1.5 * cores, every_s=10800.0, over_s=900.0, noise=0.1),
        Curve(CONSTANT, 0.5 * cores, noise=0.1),
        Curve(CONSTANT, 0.7 * cores, noise=0.2),
    )
    memories = (
        Curve(DAILY, 0.4 * memory, 0.8 * memory, peak_s=3600.0 * (number % 24), noise=0.02),
        Curve(BURSTS, 0.5 * memory, 1.4 * memory, every_s=43200.0, over_s=900.0, noise=0.02),
        Curve(LEAK, 0.4 * memory, rate=0.05 * memory / 3600, noise=0.02),
        Curve(CONSTANT, 0.9 * memory, noise=0.05),
    )
    scaled = Autoscaler(IN_PLACE_OR_RECREATE, policy, most=Size(4000, 4096 * MIB))
    at = number % 4
    limits = Size(2 * cpu, memory if at == 1 else 2 * memory)
    return Workload(f"w{number}", REPLICAS, cpu, memory, limits, curves[at], memories[at], scaled)


def scenario(nodes: int, pods: int, policy: str) -> Scenario:
    workloads = tuple(workload(number, policy) for number in range(max(1, pods // REPLICAS)))
    groups = (NodeGroup("node", nodes, 32_000, 128 * 1024 * MIB),)
    faults = (Fault(NODE_DOWN, 6 * 3600.0, 3600.0, count=max(1, nodes // 100)),)
    return Scenario(groups, workloads, faults, history_s=86400.0, seed=1, policy=policy)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=15_000)
    parser.add_argument("--policy", default="default")
    asked = parser.parse_args()
    made = scenario(asked.nodes, asked.pods, asked.policy)
    begun, first = time.process_time(), [0.0]

    def progress(done: int, whole: int) -> None:
        if done == 1:
            first[0] = time.process_time() - begun

    run = simulate(made, progress=progress)
    took_s = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tally = run.tally
    print(f"{asked.nodes:,} nodes, {made.pods:,} pods, policy {asked.policy}, one day in steps of five minutes:")
    print(f"  {took_s:.1f} s of CPU time, {made.pods / took_s:,.0f} pod-days a second, at most {peak:,.0f} MiB")
    print(f"  {made.duration_s / took_s:,.0f} times as fast as the cluster itself")
    print(f"  history and first placement of all pods: {first[0]:.1f} s")
    evictions = sum(int(counts.sum()) for counts in tally.evictions.values())
    print(f"  {tally.resizes.sum():,} resizes, {tally.kills.sum():,} kills, {evictions:,} evictions")


if __name__ == "__main__":
    main()
