"""Draws a container's usage over time with its request, limit and recommendation, as an inline SVG. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from podfit.cli.printing.amounts import amount_text
from podfit.vpa.report.decide.findings import Finding
from podfit.vpa.report.usage.evidence import Curve, Floats

WIDTH, HEIGHT = 560, 170
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 10, 24
POINTS = 420
"""The most points that are drawn: more than the chart has columns make no difference."""


def chart(finding: Finding, resource: str) -> str:
    """The SVG; "" if nothing was measured over time."""
    curve = finding.evidence.curve if finding.evidence is not None else None
    if curve is None:
        return ""
    high, mean = (curve.cpu, curve.cpu_mean) if resource == "cpu" else (curve.memory, curve.memory_mean)
    unit = 1000.0 if resource == "cpu" else 1.0
    if not np.isfinite(high).any():
        return ""
    lines = [
        (finding.now.requests.get(resource), "request", "request"),
        (finding.now.limits.get(resource), "limit", "limit"),
        (finding.recommended.requests.get(resource), "fits", "recommended"),
    ]
    fits = finding.recommended.requests.get(resource, 0)
    top = _top([amount for amount, _, _ in lines if amount], max(float(np.nanmax(high)) * unit, fits))
    parts = [
        _axis(resource, top, curve),
        _area(thinned(mean, np.nanmean), unit, top),
        _path(thinned(high, np.nanmax), unit, top, "used"),
        *(_level(resource, amount, top, style, label) for amount, style, label in lines if amount and amount <= top),
        _beyond([f"{label} {amount_text(resource, amount)}" for amount, _, label in lines if amount and amount > top]),
    ]
    title = f"{resource} of {finding.container}: use, request, limit and recommendation"
    return (
        f'<svg class="chart" role="img" aria-label="{title}" viewBox="0 0 {WIDTH} {HEIGHT}" data-resource="{resource}">'
        f"{''.join(parts)}</svg>"
    )


def _top(amounts: Sequence[int], peak: float) -> float:
    """The maximum of the vertical axis. Requests and limits far above it, which would flatten the curve, are only
    named."""
    fitting = [amount for amount in amounts if amount <= 8 * max(peak, 1.0)]
    return max([peak, *map(float, fitting), 1.0]) * 1.08


def thinned(values: Floats, combine: object) -> Floats:
    """The samples with neighbours merged, so that at most POINTS are left."""
    step = math.ceil(len(values) / POINTS)
    if step <= 1:
        return values
    padded = np.concatenate((values, np.full(-len(values) % step, np.nan, np.float32))).reshape(-1, step)
    made = np.full(len(padded), np.nan, np.float32)
    there = np.isfinite(padded).any(axis=1)
    made[there] = combine(padded[there], axis=1)  # type: ignore[operator]
    return made


def _x(at: int, count: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (at / max(1, count - 1))


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value / top)


def _runs(values: Floats, unit: float, top: float) -> list[list[tuple[float, float]]]:
    """The segments of a line, split at gaps."""
    runs: list[list[tuple[float, float]]] = []
    before = -2
    for at in np.flatnonzero(np.isfinite(values)).tolist():
        if at != before + 1:
            runs.append([])
        runs[-1].append((_x(at, len(values)), _y(float(values[at]) * unit, top)))
        before = at
    return runs


def _path(values: Floats, unit: float, top: float, style: str) -> str:
    words = []
    for run in _runs(values, unit, top):
        points = run if len(run) > 1 else [run[0], (run[0][0] + 1.5, run[0][1])]
        words.append("M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points))
    return f'<path class="{style}" d="{"".join(words)}"/>'


def _area(values: Floats, unit: float, top: float) -> str:
    base = HEIGHT - BOTTOM
    words = [
        f"M{run[0][0]:.1f},{base}L" + "L".join(f"{x:.1f},{y:.1f}" for x, y in run) + f"L{run[-1][0]:.1f},{base}Z"
        for run in _runs(values, unit, top)
    ]
    return f'<path class="mean" d="{"".join(words)}"/>'


def _level(resource: str, amount: int, top: float, style: str, label: str) -> str:
    y = _y(float(amount), top)
    return (
        f'<line class="{style}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}">'
        f"<title>{label}: {amount_text(resource, amount)}</title></line>"
    )


def _beyond(names: list[str]) -> str:
    words = f'<text class="beyond" x="{WIDTH - RIGHT}" y="{TOP + 2}" text-anchor="end">↑ {", ".join(names)}</text>'
    return words if names else ""


def _axis(resource: str, top: float, curve: Curve) -> str:
    found = []
    for part in (0.0, 0.5, 1.0):
        y = _y(top * part / 1.08, top)
        found.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        text = amount_text(resource, top * part / 1.08)
        found.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{text}</text>')
    end = curve.start + curve.step * (len(curve.cpu) - 1)
    form = "%a %d %b" if end - curve.start > 2 * 86400 else "%H:%M"
    for at, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        when = datetime.fromtimestamp(curve.start + (end - curve.start) * at, UTC).strftime(form)
        x = LEFT + (WIDTH - LEFT - RIGHT) * at
        found.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 7}" text-anchor="{anchor}">{when}</text>')
    return "".join(found)
