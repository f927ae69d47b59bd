"""Estimates of all containers of all autoscalers at once."""

from __future__ import annotations

from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.bulk import NO_BUCKET, Groups, estimate_groups, group_percentiles
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.estimate import estimate, minimums

START = 1_700_000_000.0


def fleet(*usage: int) -> tuple[Fleet, list[RowAggregate]]:
    """A row for each amount of millicores, with an hour of samples; 0 is a row without any."""
    made = Fleet(Config())
    rows = [RowAggregate(made) for _ in usage]
    for row, millicores in zip(rows, usage, strict=True):
        fill(row, millicores)
    return made, rows


def fill(state: AggregateState, millicores: int) -> None:
    for minute in range(60 if millicores else 0):
        state.add_cpu(millicores, START + 60.0 * minute)
    if millicores:
        state.add_peak(millicores * 10**6, START)


def test_groups_are_rows_one_after_the_other() -> None:
    groups = Groups.of([[3, 1], [], [2]], [2, 2, 1])
    assert groups.rows.tolist() == [3, 1, 2] and groups.starts.tolist() == [0, 2, 2, 3]
    assert groups.siblings.tolist() == [2, 2, 1]


def test_each_group_gets_what_its_merged_rows_get_alone() -> None:
    made, rows = fleet(100, 400, 2000)
    config = made.config
    found = estimate_groups(made, Groups.of([[rows[0].row, rows[1].row], [rows[2].row]], [2, 1]))
    both, last = AggregateState(config), AggregateState(config)
    for state, amounts in ((both, (100, 400)), (last, (2000,))):
        for amount in amounts:
            single = AggregateState(config)
            fill(single, amount)
            state.merge(single)
    for group, (state, siblings) in enumerate(((both, 2), (last, 1))):
        alone = estimate(state, config, minimums(config, siblings))
        assert found.cpu[:, group].tolist() == [entry["cpu"] for entry in (alone.target, alone.lower, alone.upper)]
        assert found.memory[:, group].tolist() == [
            entry["memory"] for entry in (alone.target, alone.lower, alone.upper)
        ]


def test_a_group_without_samples_is_distinguished() -> None:
    made, rows = fleet(100, 0)
    groups = Groups.of([[rows[0].row], [rows[1].row]], [1, 1])
    assert estimate_groups(made, groups).sampled.tolist() == [[True, False], [True, False]]
    assert group_percentiles(made.cpu, groups, (0.9,))[0, 1] == NO_BUCKET


def test_no_groups_are_no_estimates() -> None:
    made, _ = fleet()
    found = estimate_groups(made, Groups.of([], []))
    assert found.cpu.shape == (3, 0) and found.sampled.shape == (2, 0)
