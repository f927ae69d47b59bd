"""The aggregated usage of the containers with one name and one set of labels."""

from __future__ import annotations

import pytest

from podfit.vpa.model.times import NEVER
from podfit.vpa.recommender.decide.checkpoint import CheckpointError
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState, load_aggregate

START = 1_700_000_000.0
DAY_S = 86400.0


def aggregate(*samples: tuple[int, float], config: Config | None = None) -> AggregateState:
    made = AggregateState(config or Config())
    for millicores, instant in samples:
        made.add_cpu(millicores, instant)
    return made


def test_the_span_of_samples_holds_the_first_and_the_last_in_any_order() -> None:
    made = aggregate((100, START + 60), (100, START), (100, START + 30))
    assert (made.first, made.last, made.count, made.empty) == (START, START + 60, 3, False)


def test_merging_adds_samples_and_spans() -> None:
    one, other = aggregate((100, START)), aggregate((300, START - 60), (300, START + 60))
    one.merge(other)
    assert (one.first, one.last, one.count) == (START - 60, START + 60, 3)
    assert one.cpu.percentile(0.1) == aggregate((100, START)).cpu.percentile(0.9)
    assert one.cpu.percentile(0.9) == aggregate((300, START)).cpu.percentile(0.9)
    empty = aggregate()
    one.merge(empty)
    assert one.first == START - 60


def test_a_peak_that_is_taken_out_again_leaves_nothing() -> None:
    made = aggregate()
    made.add_peak(10**9, START)
    made.subtract_peak(10**9, START)
    assert made.memory.empty


def test_samples_expire_after_the_memory_window_and_an_empty_aggregate_after_its_age() -> None:
    made = aggregate((100, START))
    assert not made.expired(START + 8 * DAY_S - 1) and made.expired(START + 8 * DAY_S)
    empty = AggregateState(Config(), created=START)
    assert not empty.expired(START + DAY_S) and empty.expired(START + 8 * DAY_S)


def test_a_policy_switches_scaling_off_and_its_intervals_need_the_gate() -> None:
    policy = {"mode": "Off", "controlledResources": ["cpu"], "memoryAggregationIntervalCount": 3, "oomBumpUpRatio": "2"}
    closed, opened = aggregate(), aggregate(config=Config(per_vpa_config=True))
    for made in (closed, opened):
        made.apply_policy(policy)
        assert made.scaling_off and made.controlled == ("cpu",)
    assert (closed.memory_intervals, closed.oom_ratio) == (8, 1.2)
    assert (opened.memory_intervals, opened.oom_ratio) == (3, 2.0)


def test_a_saved_aggregate_is_read_back() -> None:
    made = aggregate((100, START), (300, START + 60))
    made.add_peak(10**9, START)
    read = load_aggregate(made.save(START + 120), Config())
    assert (read.first, read.last, read.count) == (START, START + 60, 2)
    assert read.cpu.percentile(0.9) == made.cpu.percentile(0.9)
    assert read.memory.percentile(0.9) == made.memory.percentile(0.9)


def test_an_empty_aggregate_has_no_times() -> None:
    saved = aggregate().save(START)
    assert saved["firstSampleStart"] is None and "totalSamplesCount" not in saved
    assert load_aggregate(saved, Config()).first == NEVER


@pytest.mark.parametrize("change", [{"version": "v2"}, {"firstSampleStart": "soon"}, {"totalSamplesCount": "many"}])
def test_a_checkpoint_that_cannot_be_understood_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(CheckpointError):
        load_aggregate({**aggregate((1, START)).save(START), **change}, Config())
