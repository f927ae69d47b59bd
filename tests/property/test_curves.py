"""Samples of usage are returned slot by slot, whatever the order of pods and restarts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.vpa.history.base import NONE
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.curves.codes import BadCurve, amounts_of, as_text, coded, from_text
from podfit.vpa.recommender.decide.curves.curves import DAY, SLOT_S, SLOTS, CurveKey, Curves
from podfit.vpa.recommender.decide.fleet.fleet import Fleet

FEW = settings(max_examples=40, deadline=None)
ONE, OTHER = CurveKey(("default", "one"), "main"), CurveKey(("default", "other"), "main")
Sample = tuple[int, float, int, int]
"""A sample: container, time, millicores, bytes."""


@given(st.lists(st.floats(1e-5, 1e4), max_size=20))
def test_an_amount_is_kept_to_a_thousandth(amounts: list[float]) -> None:
    found = amounts_of(coded(np.array(amounts), "cpu"), "cpu")
    np.testing.assert_allclose(found, amounts, rtol=1e-3)


def test_nothing_known_stays_nothing_known_and_zero_is_known() -> None:
    found = amounts_of(coded(np.array([np.nan, 0.0]), "memory"), "memory")
    assert np.isnan(found[0])
    assert found[1] == 1.0


@given(st.integers(0, 10**7), st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535)), max_size=50))
def test_a_saved_curve_is_read_back(first: int, pairs: list[tuple[int, int]]) -> None:
    cpu, memory = (np.array([pair[at] for pair in pairs], np.uint16) for at in (0, 1))
    begin, *both = from_text(as_text(first, cpu, memory), 50)
    assert begin == first
    np.testing.assert_array_equal(both[0], cpu)
    np.testing.assert_array_equal(both[1], memory)


@given(
    st.text(max_size=40) | st.builds("1:{}:{}:{}".format, st.integers(), st.integers(), st.text("AQ=+/", max_size=9))
)
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadCurve):
        from_text(text, 0 if text.startswith("1:") else SLOTS)
        raise BadCurve("an empty curve is one")


def test_a_text_that_unpacks_to_more_than_it_says_is_refused() -> None:
    whole = as_text(0, np.zeros(3000, np.uint16), np.zeros(3000, np.uint16))
    with pytest.raises(BadCurve):
        from_text(whole.replace(":3000:", ":30:"), SLOTS)


samples = st.lists(
    st.tuples(
        st.integers(0, 2), st.floats(0, 3 * DAY * SLOT_S), st.just(NONE) | st.integers(1, 9999), st.integers(1, 10**9)
    ),
    min_size=1,
    max_size=60,
)


@FEW
@given(samples, st.lists(st.integers(1, 60), max_size=5))
def test_a_slot_has_the_mean_cpu_and_the_highest_memory_of_the_pod_that_used_most(
    given: list[Sample], cuts: list[int]
) -> None:
    given = sorted(given, key=lambda row: row[1])
    fleet = Fleet(Config())
    rows = [fleet.new_row() for _ in range(2)]
    # Two pods of one workload, and one of another that shares nothing with it.
    handles = [fleet.new_handle(rows[0]), fleet.new_handle(rows[0]), fleet.new_handle(rows[1])]
    curves = Curves(fleet)
    curves.keep({ONE: [rows[0]], OTHER: [rows[1]]})
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(given)], strict=True):
        part = given[begin:end]
        columns = [np.array([item[at] for item in part]) for at in range(4)]
        who = np.array([handles[row[0]] for row in part], np.int64)
        curves.take(who, columns[1].astype(float), columns[2].astype(np.int64), columns[3].astype(np.int64))
    until = 3 * DAY + 1
    curves.settle(until)
    for key, pods in ((ONE, (0, 1)), (OTHER, (2,))):
        found = {
            name: curves.usage(np.array([curves.numbers[key]]), 0, until, name)[0].astype(float)
            for name in ("cpu", "memory")
        }
        cpu, memory = expected(given, pods, until)
        np.testing.assert_allclose(found["cpu"], cpu, rtol=2e-3, atol=2e-6)
        np.testing.assert_allclose(found["memory"], memory, rtol=2e-3)


def expected(given: list[Sample], pods: tuple[int, ...], until: int) -> tuple[list[float], list[float]]:
    cpu, memory = [float("nan")] * until, [float("nan")] * until
    for slot in range(until):
        for pod in pods:
            mine = [row for row in given if row[0] == pod and int(row[1] // SLOT_S) == slot]
            known = [row[2] / 1000 for row in mine if row[2] != NONE]
            if known:
                cpu[slot] = float(np.fmax(cpu[slot], sum(known) / len(known)))
            if mine:
                memory[slot] = float(np.fmax(memory[slot], max(row[3] for row in mine)))
    return cpu, memory


def test_after_eleven_days_the_oldest_slots_are_gone_and_the_window_begins_at_a_whole_day() -> None:
    fleet = Fleet(Config())
    row = fleet.new_row()
    handle = fleet.new_handle(row)
    curves = Curves(fleet)
    curves.keep({ONE: [row]})
    number = np.array([curves.numbers[ONE]])
    until = 20 * DAY
    for slot in range(until):
        curves.take(np.array([handle]), np.array([slot * SLOT_S]), np.array([slot % 1000 + 1]), np.array([10**6]))
        curves.settle(slot + 1)
    begin = int(curves.begins(number, until)[0])
    assert (begin - int(curves.phase[number[0]])) % DAY == 0
    assert 10 * DAY - DAY <= until - begin <= SLOTS
    used = curves.usage(number, begin, until, "cpu")[0]
    np.testing.assert_allclose(used, (np.arange(begin, until) % 1000 + 1) / 1000, rtol=1e-3)


def test_a_curve_that_is_no_longer_wanted_is_dropped_and_its_place_begins_empty() -> None:
    fleet = Fleet(Config())
    rows = [fleet.new_row(), fleet.new_row()]
    handle = fleet.new_handle(rows[0])
    curves = Curves(fleet)
    curves.keep({ONE: [rows[0]]})
    curves.take(np.array([handle]), np.array([0.0]), np.array([100]), np.array([1000]))
    curves.settle(1)
    place = curves.numbers[ONE]
    curves.keep({OTHER: [rows[1]]})
    assert curves.numbers == {OTHER: place}
    assert np.isnan(curves.usage(np.array([place]), 0, 5, "cpu")).all()
