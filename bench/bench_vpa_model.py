"""Measures the recommender's model: samples/s in, containers/s out, bytes per container.

Run: PYTHONPATH=src python bench/bench_vpa_model.py [containers]. A model that processes one container at a time runs in
the same process, for a ratio that does not depend on the machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.bulk import Groups, estimate_groups
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState
from podfit.vpa.recommender.decide.histograms.container import ContainerState

START, STEP, WARM_UP, MEASURED = 1_700_000_000, 60, 60, 20


def best(work: Callable[[], object], times: int) -> float:
    """CPU seconds of the fastest of several runs, the one least affected by other processes."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        work()
        found.append(time.process_time() - begun)
    return min(found)


class Load:
    """Containers with different usage levels, sampled once a minute with noise."""

    def __init__(self, containers: int) -> None:
        self.random = np.random.default_rng(1)
        self.cpu = self.random.lognormal(5, 1, containers)
        self.memory = self.random.lognormal(19, 1, containers)
        self.minute = 0

    def scrape(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.minute += 1
        count = len(self.cpu)
        when = START + self.minute * STEP + np.floor(self.random.uniform(0, 15, count))
        cpu = (self.cpu * self.random.uniform(0.5, 1.5, count)).astype(np.int64)
        memory = (self.memory * self.random.uniform(0.8, 1.2, count)).astype(np.int64)
        return when, cpu, memory


def one_at_a_time(config: Config, samples: int) -> float:
    """Samples/s of the model made of plain objects."""
    aggregate, container = AggregateState(config), ContainerState()
    begun = time.process_time()
    for number in range(samples // 2):
        container.add_cpu(aggregate, 200 + number % 50, START + number)
        container.add_memory(aggregate, 10**8 + number % 1000, START + number)
    return samples / (time.process_time() - begun)


def python_bytes(containers: int) -> float:
    """The memory per container of pods, names and indexes, in addition to the arrays."""
    import tracemalloc

    config = Config()
    fleet = Fleet(config)
    cluster = ClusterState(config, fleet)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(containers):
        id = ("namespace", f"web-{number:06d}")
        cluster.add_pod(id, {"app": f"web-{number:06d}"}, "Running")
        cluster.add_container(id, "app")
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    arrays = len(fleet.row) and fleet.nbytes
    return (used - arrays) / containers


def main() -> None:
    containers = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    config = Config()
    fleet = Fleet(config)
    handles = np.array([fleet.new_handle(fleet.new_row()) for _ in range(containers)])
    load = Load(containers)
    for _ in range(WARM_UP):
        when, cpu, memory = load.scrape()
        fleet.ingest_cpu(handles, when, cpu)
        fleet.ingest_memory(handles, when, memory)
    seconds = 1e9
    for _ in range(MEASURED):
        when, cpu, memory = load.scrape()
        begun = time.process_time()
        fleet.ingest_cpu(handles, when, cpu)
        fleet.ingest_memory(handles, when, memory)
        seconds = min(seconds, time.process_time() - begun)
    groups = Groups(fleet.row[handles], np.arange(containers + 1), np.ones(containers, np.int64))
    estimated = best(lambda: estimate_groups(fleet, groups), 5)
    ingested, plain = 2 * containers / seconds, one_at_a_time(config, 40_000)
    arrays, objects = fleet.nbytes / containers, python_bytes(20_000)
    print(f"containers                    {containers:>12,}")
    print(f"samples ingested a second     {ingested:>12,.0f}   ({ingested / plain:.0f}x one at a time)")
    print(f"containers recommended a s    {containers / estimated:>12,.0f}")
    print(f"bytes a container             {arrays + objects:>12,.0f}   (arrays {arrays:,.0f}, objects {objects:,.0f})")


if __name__ == "__main__":
    main()
