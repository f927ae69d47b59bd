"""Cyclic garbage collection: new objects are scanned, objects that survived only when there is a reason."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from podfit.kit.process import garbage


class Knot:
    def __init__(self) -> None:
        self.itself = self


class Measures:
    def __init__(self) -> None:
        self.now, self.blocks = 0.0, 1000


@pytest.fixture
def measures() -> Iterator[Measures]:
    """A collector with these thresholds, which runs only when called."""
    measured = Measures()
    callback = garbage.GcFreezer(lambda: measured.now, lambda: measured.blocks)
    gc.collect()
    gc.disable()
    gc.callbacks.append(callback)
    yield measured
    gc.callbacks.remove(callback)
    gc.enable()
    gc.unfreeze()


def dropped_after_a_look() -> weakref.ref[Knot]:
    knot = Knot()
    gc.collect(0)
    return weakref.ref(knot)


def test_a_cycle_that_was_dropped_before_the_first_look_is_found_by_it(measures: Measures) -> None:
    gone = weakref.ref(Knot())
    assert gone() is not None
    gc.collect(0)
    assert gone() is None


def test_what_a_check_found_alive_is_not_checked_again(measures: Measures) -> None:
    gone = dropped_after_a_look()
    for generation in (0, 1, 2):
        gc.collect(generation)
    assert gone() is not None


@pytest.mark.parametrize(("seconds", "blocks"), [(3600.0, 1250), (1.0, 4000)], ids=["a leak", "grown"])
def test_everything_is_checked_when_there_is_a_reason(measures: Measures, seconds: float, blocks: int) -> None:
    gone = dropped_after_a_look()
    measures.now, measures.blocks = seconds, blocks
    gc.collect(1)
    assert gone() is not None
    gc.collect(2)
    assert gone() is None


@pytest.mark.parametrize(("seconds", "blocks"), [(1e9, 1249), (3599.0, 3999)], ids=["at rest", "for a while"])
def test_nothing_is_collected_without_lasting_growth(measures: Measures, seconds: float, blocks: int) -> None:
    gone = dropped_after_a_look()
    measures.now, measures.blocks = seconds, blocks
    gc.collect(2)
    assert gone() is not None


def test_a_full_look_that_has_a_reason_comes_by_itself(measures: Measures) -> None:
    gone, thresholds = dropped_after_a_look(), gc.get_threshold()
    measures.blocks = 4000
    kept: list[list[int]] = []
    try:
        gc.set_threshold(10_000, 1, 1)
        gc.enable()
        while gone() is not None and len(kept) < 5_000_000:
            kept.append([])
    finally:
        gc.disable()
        gc.set_threshold(*thresholds)
    assert gone() is None


def test_the_next_full_look_is_measured_from_the_last(measures: Measures) -> None:
    measures.now, measures.blocks = 4000.0, 5000
    gc.collect(2)
    gone = dropped_after_a_look()
    measures.now, measures.blocks = 7000.0, 19_000
    gc.collect(2)
    assert gone() is not None
    measures.blocks = 20_000
    gc.collect(2)
    assert gone() is None


def test_looking_rarely_twice_is_looking_rarely_once() -> None:
    before, thresholds = list(gc.callbacks), gc.get_threshold()
    try:
        garbage.collect_rarely()
        garbage.collect_rarely()
        assert len(gc.callbacks) == len(before) + (garbage._set_aside not in before)
    finally:
        gc.callbacks[:] = before
        gc.set_threshold(*thresholds)
        gc.unfreeze()
