"""A row and a container of a fleet behind the interfaces of the classes for a single one."""

from __future__ import annotations

from podfit.vpa.model.times import NEVER
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import NO_ROW, Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate, RowContainer, RowHistogram, RowWeights
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.container import ContainerState

START, DAY_S, GB = 1_700_000_000.0, 86400.0, 10**9


def fill(aggregate: AggregateState, container: ContainerState) -> None:
    container.add_cpu(aggregate, 100, START)
    container.add_cpu(aggregate, 900, START + 60)
    container.add_memory(aggregate, GB, START)
    container.add_memory(aggregate, 2 * GB, START + DAY_S)
    container.record_oom(aggregate, 3 * GB, START + DAY_S + 60)


def test_a_row_says_what_an_object_of_its_own_says() -> None:
    fleet = Fleet(Config())
    row, single = RowAggregate(fleet), AggregateState(Config())
    inside, alone = RowContainer(fleet, row.row), ContainerState()
    fill(row, inside)
    fill(single, alone)
    assert row.save(START) == single.save(START)
    names = ("last_cpu", "last_memory", "window_end", "memory_peak", "oom_peak", "peak")
    assert [getattr(inside, name) for name in names] == [getattr(alone, name) for name in names]
    assert row.cpu.equals(RowHistogram(fleet.cpu, row.row)) and row.memory_interval == single.memory_interval


def test_a_new_row_has_no_samples() -> None:
    row = RowAggregate(Fleet(Config()))
    assert (row.first, row.last, row.count, row.empty) == (NEVER, NEVER, 0, True)
    row.first = NEVER
    assert row.first == NEVER


def test_weights_outside_the_window_are_zero_until_they_are_set() -> None:
    fleet = Fleet(Config())
    weights = RowWeights(fleet.cpu, fleet.new_row())
    assert len(weights) == 176 and weights[170] == 0.0 and not any(weights)
    weights[5] = 0.0
    assert fleet.cpu.arena.width[0] == 0
    weights[5], weights[170] = 1.5, 2.5
    assert weights[5] == 1.5 and [bucket for bucket, weight in enumerate(weights) if weight] == [5, 170]


def test_a_released_reservation_is_available_to_others() -> None:
    fleet = Fleet(Config())
    row = RowAggregate(fleet)
    container = RowContainer(fleet, row.row)
    container.release()
    row.release()
    assert fleet.row[container.handle] == NO_ROW
    assert RowAggregate(fleet).row == row.row
