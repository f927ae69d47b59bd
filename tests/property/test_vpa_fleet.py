"""The vectorised engine gives the same results as the model of single containers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.bulk import Groups, estimate_groups
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate, RowContainer
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.container import ContainerState
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, estimate_all

START = 1_700_000_000


class Twins:
    """The same containers twice: in a fleet, and as objects."""

    def __init__(self, config: Config, rows: int, containers: int) -> None:
        self.fleet = Fleet(config)
        self.row_views = [RowAggregate(self.fleet) for _ in range(rows)]
        self.row_objects = [AggregateState(config) for _ in range(rows)]
        self.row_of = [number % rows for number in range(containers)]
        self.views = [RowContainer(self.fleet, self.row_views[row].row) for row in self.row_of]
        self.objects = [ContainerState() for _ in self.row_of]

    def scrape(self, who: Any, when: Any, cpu: Any, memory: Any) -> None:
        handles = np.array([self.views[number].handle for number in who], np.int64)
        accepted = self.fleet.ingest_cpu(handles, when, cpu), self.fleet.ingest_memory(handles, when, memory)
        got_cpu = got_memory = 0
        for number, instant, value in zip(who, when, cpu, strict=True):
            got_cpu += self.objects[number].add_cpu(self.row_objects[self.row_of[number]], int(value), float(instant))
        for number, instant, value in zip(who, when, memory, strict=True):
            target = self.row_objects[self.row_of[number]]
            got_memory += self.objects[number].add_memory(target, int(value), float(instant))
        assert accepted == (got_cpu, got_memory)

    def assert_same(self, to_the_bit: bool) -> None:
        """Samples that were added in another order may differ in the last bits of their sums."""
        relative = 0.0 if to_the_bit else 1e-9
        for view, object in zip(self.row_views, self.row_objects, strict=True):
            assert (view.first, view.last, view.count) == (object.first, object.last, object.count)
            for mine, theirs in ((view.cpu, object.cpu), (view.memory, object.memory)):
                assert (mine.low, mine.high, mine.reference) == (theirs.low, theirs.high, theirs.reference)
                assert math.isclose(mine.total, theirs.total, rel_tol=relative, abs_tol=0.0)
                pairs = zip(mine.weights, theirs.weights, strict=True)
                small = relative * theirs.total
                assert all(math.isclose(a, b, rel_tol=relative, abs_tol=small) for a, b in pairs)
        for view, object in zip(self.views, self.objects, strict=True):
            assert (view.last_cpu, view.window_end, view.peak) == (object.last_cpu, object.window_end, object.peak)


def repeats(seed: int, step: int) -> bool:
    return seed % 2 == 1 and step == 60


def random_scrapes(twins: Twins, seed: int, scrapes: int, step: int) -> None:
    random = np.random.default_rng(seed)
    count = len(twins.views)
    for number in range(scrapes):
        # Repeated containers are ingested in rounds, so only scrapes without any may be far apart or out of order.
        repeated = repeats(seed, step)
        who = random.integers(0, count, random.integers(1, 2 * count + 1)) if repeated else np.arange(count)
        jitter = random.integers(-step // 2 if seed % 3 == 0 and not repeated else 0, 15, len(who))
        when = START + number * step + jitter.astype(float)
        cpu = np.exp(random.uniform(-2, 15, len(who))).astype(np.int64) - 2
        memory = np.exp(random.uniform(0, 30, len(who))).astype(np.int64) - 2
        twins.scrape(who.tolist(), when, cpu, memory)


configs = st.builds(
    Config,
    cpu_histogram_decay_half_life=st.sampled_from([600, 3600, 86400]),
    memory_histogram_decay_half_life=st.sampled_from([5000, 86400]),
    memory_aggregation_interval=st.sampled_from([3600, 86400]),
)


@settings(max_examples=60)
@given(
    config=configs,
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 6),
    containers=st.integers(1, 12),
    scrapes=st.integers(1, 25),
    step=st.sampled_from([60, 3600, 50_000, 2_000_000]),
)
def test_scrapes_leave_the_same_state_as_single_samples(
    config: Config, seed: int, rows: int, containers: int, scrapes: int, step: int
) -> None:
    twins = Twins(config, rows, containers)
    random_scrapes(twins, seed, scrapes, step)
    twins.assert_same(to_the_bit=not repeats(seed, step))


@settings(max_examples=40)
@given(
    config=configs,
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    scrapes=st.integers(0, 20),
)
def test_estimates_in_bulk_equal_estimates_one_by_one(
    config: Config, seed: int, sizes: list[int], scrapes: int
) -> None:
    rows = sum(sizes)
    twins = Twins(config, rows, rows)
    random_scrapes(twins, seed, scrapes, 40_000)
    groups, names, at = [], [], 0
    for number, size in enumerate(sizes):
        groups.append([twins.row_views[row].row for row in range(at, at + size)])
        names.append((f"c{number}", twins.row_objects[at : at + size]))
        at += size
    got = estimate_groups(twins.fleet, Groups.of(groups, [len(sizes)] * len(sizes)))
    merged = {}
    for name, states in names:
        merged[name] = AggregateState(config)
        for state in states:
            merged[name].merge(state)
    expected = estimate_all(merged, config)
    for number, (name, _) in enumerate(names):
        sizes_of = expected.get(name, Estimate({}, {}, {}))
        sampled = [resource for at, resource in enumerate(("cpu", "memory")) if got.sampled[at, number]]
        for axis, amounts in enumerate((sizes_of.target, sizes_of.lower, sizes_of.upper)):
            in_bulk = {"cpu": int(got.cpu[axis, number]), "memory": int(got.memory[axis, number])}
            assert {resource: in_bulk[resource] for resource in sampled} == amounts


def test_forgotten_rows_and_handles_are_used_again_without_a_trace() -> None:
    fleet = Fleet(Config())
    aggregate = RowAggregate(fleet)
    container = RowContainer(fleet, aggregate.row)
    fleet.ingest_cpu([container.handle], START, [250])
    fleet.ingest_memory([container.handle], START, [10**9])
    container.release()
    aggregate.release()
    again = RowAggregate(fleet)
    assert again.row == aggregate.row
    assert (again.count, again.cpu.total, again.memory.total) == (0, 0.0, 0.0)
    assert not any(again.cpu.weights) and not any(again.memory.weights)
    assert RowContainer(fleet, again.row).peak == 0
