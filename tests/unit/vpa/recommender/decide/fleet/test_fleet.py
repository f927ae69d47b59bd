"""Rows, handles, and ingestion of whole scrapes."""

from __future__ import annotations

import pytest

from podfit.vpa.model.times import NEVER
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.fleet.fleet import NO_ROW, Fleet
from podfit.vpa.recommender.decide.histograms import buckets

START, DAY_S = 1_700_000_000.0, 86400.0
GB = 10**9


def fleet(containers: int = 2, rows: int = 1) -> tuple[Fleet, list[int], list[int]]:
    made = Fleet(Config())
    numbers = [made.new_row() for _ in range(rows)]
    return made, numbers, [made.new_handle(numbers[at % rows]) for at in range(containers)]


def test_a_released_row_is_reused_and_starts_empty() -> None:
    made, [row], [one, other] = fleet()
    made.ingest_cpu([one], [START], [100])
    made.free_handle(other)
    assert made.row[other] == NO_ROW and made.new_handle(row) == other
    made.free_row(row)
    assert made.row[one] == NO_ROW
    assert made.new_row() == row and made.count[row] == 0 and made.last[row] == NEVER


def test_containers_of_one_row_share_its_histogram() -> None:
    made, [row], handles = fleet()
    assert made.ingest_cpu(handles, [START, START + 60], [100, 100]) == 2
    assert (made.first[row], made.last[row], made.count[row]) == (START, START + 60, 2)


@pytest.mark.parametrize(
    ("instants", "values", "accepted"),
    [((0, 60), (1, 1), 2), ((0, 0), (1, 1), 1), ((60, 0), (1, 1), 1), ((0, 60), (1, -1), 1)],
)
def test_repeated_late_and_negative_samples_are_refused(
    instants: tuple[int, int], values: tuple[int, int], accepted: int
) -> None:
    made, _, [one, _] = fleet()
    assert made.ingest_cpu([one, one], [START + at for at in instants], values) == accepted


def test_of_a_window_only_the_highest_memory_counts() -> None:
    made, [row], [one, _] = fleet()
    for amount, at in ((GB, 0), (3 * GB, 60), (2 * GB, 120)):
        made.ingest_memory([one], [START + at], [amount])
    assert made.memory.percentile_buckets((0.01, 0.99))[:, row].tolist() == [buckets.MEMORY.find(3.0 * GB)] * 2
    made.ingest_memory([one], [START + 2 * DAY_S], [GB])
    assert made.memory_peak[one] == GB and made.memory.percentile_buckets((0.01,))[0, row] == buckets.MEMORY.find(GB)


def test_a_container_whose_row_was_forgotten_gets_another() -> None:
    made, [row], [one, _] = fleet()
    made.free_row(row)
    other = made.new_row()
    made.lost_row = lambda handle: other
    made.ingest_cpu([one], [START], [100])
    assert made.row[one] == other and made.count[other] == 1


def test_a_limit_remembers_when_it_was_changed_and_lowered() -> None:
    made, _, [one, _] = fleet()
    for limit, at in ((500, 1.0), (500, 2.0), (200, 3.0), (900, 4.0), (0, 5.0)):
        made.set_limit(one, limit, 100, at)
    assert (made.limit[one], made.request[one], made.lowered[one], made.changed[one]) == (0, 100, 3.0, 5.0)


@pytest.mark.parametrize("millicores", [0, 9, 10, 11, 999, 10**6])
def test_the_bucket_of_whole_millicores_is_that_of_the_scheme(millicores: int) -> None:
    made, [row], [one, _] = fleet()
    made.ingest_cpu([one], [START], [millicores])
    assert made.cpu.percentile_buckets((0.5,))[0, row] == buckets.CPU.find(millicores / 1000.0)


def test_arrays_grow_with_the_cluster() -> None:
    made, rows, handles = fleet(containers=600, rows=300)
    assert len(set(rows)) == 300 and len(set(handles)) == 600 and made.nbytes > 0
    assert made.ingest_cpu(handles, [START] * 600, [100] * 600) == 600
