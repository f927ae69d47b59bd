"""Curves of load: areas add up, crossings are where the curve crosses."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podfit.agent.runtimes.fake.load import Curve, Sampled, constant, parse_load

values = st.floats(0, 1000, allow_nan=False).map(lambda value: round(value, 6))  # an area of less can underflow to 0
spans = st.floats(0.1, 1000)


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    at, points = 0.0, []
    for value in draw(st.lists(values, min_size=1, max_size=8)):
        points.append((at, value))
        at += draw(st.one_of(spans, st.just(0.0))) if len(points) > 1 else draw(spans)
    repeats = points[-1][0] if len(points) > 1 and draw(st.booleans()) else None
    return Curve(points, repeats_s=repeats or None)


@given(curves(), st.floats(0, 500), spans, spans, values)
def test_areas_add_up(curve: Curve, start: float, first: float, second: float, cap: float) -> None:
    whole = curve.areas(start, start + first + second, cap)
    left, right = curve.areas(start, start + first, cap), curve.areas(start + first, start + first + second, cap)
    assert whole[0] == pytest.approx(left[0] + right[0], rel=1e-6, abs=1e-3)
    assert whole[1] == pytest.approx(left[1] + right[1], rel=1e-6, abs=1e-3)
    assert whole[0] <= cap * (first + second) * (1 + 1e-6) + 1e-3


@given(curves(), st.floats(0, 500), spans, values)
def test_an_area_is_what_samples_say(curve: Curve, start: float, span: float, cap: float) -> None:
    exact, sampled = curve.areas(start, start + span, cap), Sampled(curve.at, 2000).areas(start, start + span, cap)
    assert exact[0] + exact[1] == pytest.approx(sampled[0] + sampled[1], rel=0.1, abs=span * 10)


@given(curves(), st.floats(0, 500), spans, spans, values)
def test_the_time_above_a_cap_adds_up_and_is_zero_below_it(
    curve: Curve, start: float, first: float, second: float, cap: float
) -> None:
    middle, end = start + first, start + first + second
    whole = curve.time_above(start, end, cap)
    assert whole == pytest.approx(curve.time_above(start, middle, cap) + curve.time_above(middle, end, cap), abs=1e-3)
    assert 0.0 <= whole <= (end - start) * (1 + 1e-6) + 1e-3
    assert (whole == 0.0) == (curve.areas(start, end, cap)[1] == 0.0)


@given(curves(), st.floats(0, 500), values)
@example(Curve([(0.0, 0.0), (0.1, 2.0)], repeats_s=0.1), 1.0, 1.0)
def test_before_a_crossing_the_load_is_not_above(curve: Curve, start: float, level: float) -> None:
    crossing = curve.first_above(level, start)
    if crossing is None:
        assert all(curve.at(start + i * 7.3) <= level + 1e-6 for i in range(300))
    else:
        assert crossing >= start
        steps = [start + (crossing - start) * i / 50 for i in range(50)]
        assert all(curve.at(t) <= level + 1e-3 for t in steps if t < crossing - 1e-5)


@given(values, values, spans)
def test_annotations_say_what_they_say(low: float, high: float, seconds: float) -> None:
    low, high = round(low, 3), round(high, 3)
    ramp = parse_load(f"ramp:{low}..{high}:{seconds}")
    assert ramp.at(0) == pytest.approx(low) and ramp.at(seconds * 2) == pytest.approx(high)
    sine = parse_load(f"sine:{low}..{high}:{seconds}")
    assert sine.at(seconds / 4) == pytest.approx(high, abs=1e-6) and sine.at(seconds * 7) == pytest.approx(
        sine.at(0), abs=1
    )


def test_steps_jump() -> None:
    steps = parse_load("steps:100m@0,2@60,64Mi@120")
    assert [steps.at(t) for t in (0, 59.9, 60, 119, 120, 9999)] == [0.1, 0.1, 2.0, 2.0, 64 << 20, 64 << 20]
    assert steps.first_above(1.0, 0) == pytest.approx(60) and steps.first_above(math.inf, 0) is None


@pytest.mark.parametrize(
    "text", ["", "zigzag:1", "ramp:1", "ramp:1..2", "sine:1..2:0", "constant:", "ramp:1..2:x", "steps:"]
)
def test_nonsense_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_load(text)


@given(st.floats(0.0, 8.0), st.floats(0.0, 8.0), st.floats(0.0, 50.0), st.floats(0.0, 50.0))
def test_a_load_that_never_changes_is_as_any_other_curve(value: float, level: float, start: float, more: float) -> None:
    one, other = constant(value), Curve([(0.0, value), (20.0, value)])
    assert one.at(start) == pytest.approx(other.at(start))
    assert one.first_above(level, start) == other.first_above(level, start)
    assert one.first_below(level, start) == other.first_below(level, start)
    assert one.areas(start, start + more, level) == pytest.approx(other.areas(start, start + more, level))
    assert one.time_above(start, start + more, level) == pytest.approx(other.time_above(start, start + more, level))
