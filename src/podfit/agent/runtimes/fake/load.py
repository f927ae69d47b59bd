"""Load of fake containers: the demand for CPU or memory as a function of the seconds since the container started.

A `Curve` is a piecewise linear function, once or repeated forever: enough for constants, ramps, steps and (in 48
pieces) sines, and simple enough that areas and crossings are exact. Annotations spell curves as

constant:250m ramp:64Mi..1Gi:600 sine:100m..900m:3600 steps:100m@0,2@60,100m@120
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Protocol

from podfit.api.quantity import Quantity

SINE_PIECES = 48
_HAIR_S = 1e-9


class Load(Protocol):
    def at(self, t: float) -> float: ...

    def areas(self, start: float, end: float, cap: float) -> tuple[float, float]:
        """The area below the curve up to `cap`, and the area above it."""

    def time_above(self, start: float, end: float, cap: float) -> float:
        """The seconds for which the load exceeds the cap."""

    def first_above(self, level: float, start: float) -> float | None:
        """The time at which the load next exceeds the level (now counts); None if never, or if it cannot be
        computed."""

    def first_below(self, level: float, start: float) -> float | None: ...


class Curve:
    def __init__(self, points: list[tuple[float, float]], repeats_s: float | None = None) -> None:
        if not points or points[0][0] != 0.0:
            raise ValueError("a curve begins at 0 seconds")
        self._times = [t for t, _ in points]
        self._values = [value for _, value in points]
        self._period = repeats_s
        self._level = points[0][1] if len(points) == 1 and not repeats_s else None
        """The value of a curve that never changes: most containers have such a curve, and it is read often."""

    def at(self, t: float) -> float:
        if self._level is not None:
            return self._level
        if self._period:
            t %= self._period
            if self._period - t < _HAIR_S:
                # 1.0 % 0.1 is not 0, yet 1.0 is the beginning of a period of 0.1.
                t = 0.0
        i = bisect_right(self._times, t) - 1
        if i >= len(self._times) - 1:
            return self._values[-1]
        t0, t1, v0, v1 = self._times[i], self._times[i + 1], self._values[i], self._values[i + 1]
        return v0 + (v1 - v0) * (t - t0) / (t1 - t0)

    def _pieces(self, start: float) -> Iterator[tuple[float, float, float, float]]:
        """(t0, t1, v0, v1) from `start` on; the last one of a curve that does not repeat is infinite."""
        base = (start // self._period) * self._period if self._period else 0.0
        while True:
            for i in range(len(self._times) - 1):
                t0, t1 = base + self._times[i], base + self._times[i + 1]
                if t1 <= start or t1 == t0:
                    continue
                v0, v1 = self._values[i], self._values[i + 1]
                if t0 < start:
                    v0, t0 = v0 + (v1 - v0) * (start - t0) / (t1 - t0), start
                yield t0, t1, v0, v1
            if not self._period:
                yield max(start, self._times[-1]), math.inf, self._values[-1], self._values[-1]
                return
            base += self._period

    def areas(self, start: float, end: float, cap: float) -> tuple[float, float]:
        if self._level is not None:
            width = max(0.0, end - max(start, 0.0))
            over = (self._level - cap) * width if self._level > cap else 0.0
            return self._level * width - over, over
        below = above = 0.0
        for t0, t1, v0, v1 in self._pieces_until(start, end):
            whole = (v0 + v1) / 2 * (t1 - t0)
            over = _over(t1 - t0, v0, v1, cap)
            below, above = below + whole - over, above + over
        return below, above

    def time_above(self, start: float, end: float, cap: float) -> float:
        if self._level is not None:
            return max(0.0, end - max(start, 0.0)) if self._level > cap else 0.0
        return sum(_longer(t1 - t0, v0, v1, cap) for t0, t1, v0, v1 in self._pieces_until(start, end))

    def _pieces_until(self, start: float, end: float) -> Iterator[tuple[float, float, float, float]]:
        for t0, t1, v0, v1 in self._pieces(start):
            if t0 >= end:
                return
            if t1 > end:
                v1, t1 = v0 + ((v1 - v0) * (end - t0) / (t1 - t0) if t1 != math.inf else 0.0), end
            yield t0, t1, v0, v1

    def first_above(self, level: float, start: float) -> float | None:
        return self._crossing(start, level, 1.0)

    def first_below(self, level: float, start: float) -> float | None:
        return self._crossing(start, level, -1.0)

    def _crossing(self, start: float, level: float, sign: float) -> float | None:
        """The time of the next crossing of the level, in the direction of `sign`."""
        if self._level is not None:
            return max(start, 0.0) if sign * (self._level - level) > 0 else None
        horizon = start + self._period if self._period else math.inf
        for t0, t1, v0, v1 in self._pieces(start):
            d0, d1 = sign * (v0 - level), sign * (v1 - level)
            if d0 > 0:
                return t0
            if d1 > 0 and t1 != math.inf:
                # Slightly later than the crossing itself, where the difference is still 0.
                return min(t1, t0 + (t1 - t0) * (-d0) / (d1 - d0) + 1e-6)
            if t0 >= horizon or t1 == math.inf:
                return None
        return None


def _over(width: float, v0: float, v1: float, cap: float) -> float:
    """The area between a straight piece and the cap below it."""
    low, high = min(v0, v1) - cap, max(v0, v1) - cap
    if high <= 0:
        return 0.0
    if low >= 0:
        return (low + high) / 2 * width
    return high / 2 * width * high / (high - low)


def _longer(width: float, v0: float, v1: float, cap: float) -> float:
    """The seconds for which a linear piece exceeds the cap."""
    low, high = min(v0, v1), max(v0, v1)
    if high <= cap:
        return 0.0
    return width if low >= cap else width * (high - cap) / (high - low)


class Sampled:
    """Any function of time; its crossings cannot be computed in advance."""

    def __init__(self, function: Callable[[float], float], samples: int = 8) -> None:
        self._function, self._samples = function, samples

    def at(self, t: float) -> float:
        return self._function(t)

    def areas(self, start: float, end: float, cap: float) -> tuple[float, float]:
        step = (end - start) / self._samples
        values = [self._function(start + (i + 0.5) * step) for i in range(self._samples)]
        return sum(min(v, cap) for v in values) * step, sum(max(0.0, v - cap) for v in values) * step

    def time_above(self, start: float, end: float, cap: float) -> float:
        step = (end - start) / self._samples
        return sum(step for i in range(self._samples) if self._function(start + (i + 0.5) * step) > cap)

    def first_above(self, level: float, start: float) -> float | None:
        return start if self._function(start) > level else None

    def first_below(self, level: float, start: float) -> float | None:
        return start if self._function(start) < level else None


def constant(value: float) -> Curve:
    return Curve([(0.0, value)])


def as_load(given: float | Callable[[float], float] | Load) -> Load:
    if isinstance(given, (int, float)):
        return constant(float(given))
    if isinstance(given, (Curve, Sampled)):
        return given
    return Sampled(given) if callable(given) else given


def parse_load(text: str) -> Curve:
    """Parses an annotation. Raises ValueError with the error in it."""
    shape, _, rest = text.strip().partition(":")
    if shape == "constant":
        return constant(_number(rest))
    if shape == "steps":
        return _steps(rest)
    if shape not in ("ramp", "sine"):
        raise ValueError(f'unknown load "{text}": constant, ramp, sine or steps was expected')
    span, _, seconds = rest.rpartition(":")
    low, dots, high = span.partition("..")
    if not dots or not float(seconds) > 0:
        raise ValueError(f'load "{text}" is not of the form {shape}:LOW..HIGH:SECONDS')
    if shape == "ramp":
        return Curve([(0.0, _number(low)), (float(seconds), _number(high))])
    return _sine(_number(low), _number(high), float(seconds))


def _number(text: str) -> float:
    return Quantity.parse(text).nanos / 1e9


def _sine(low: float, high: float, period: float) -> Curve:
    middle, swing = (low + high) / 2, (high - low) / 2
    angles = [i / SINE_PIECES for i in range(SINE_PIECES + 1)]
    return Curve([(a * period, middle + swing * math.sin(2 * math.pi * a)) for a in angles], repeats_s=period)


def _steps(text: str) -> Curve:
    points: list[tuple[float, float]] = []
    for step in text.split(","):
        value, _, at = step.partition("@")
        if points:
            points.append((float(at or 0), points[-1][1]))
        points.append((float(at or 0), _number(value)))
    if points[0][0] != 0.0:
        points.insert(0, (0.0, points[0][1]))
    return Curve(points)
