"""The backtest as one self-contained HTML file with charts of usage against sizes. Opens offline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

import numpy as np

from podfit.cli.backtesting.history import History
from podfit.cli.backtesting.results import Result
from podfit.cli.backtesting.texts import HEADS, cells
from podfit.vpa.policies.base import CPU, GIB, Floats

CHARTS = 60
"""Containers with charts: those whose sizes cost most. A page with thousands would not open."""
POINTS = 720
WIDTH, HEIGHT = 960, 200
LEFT = 40
"""The room for the labels of the vertical axis."""
MIDDLE = HEIGHT // 2 + 8
MOST_DAYS = 14
"""The most marks in a chart."""
SHORT_DAYS = 2
"""Charts of at most this many days also have marks for hours."""
COLOURS = ("#b45309", "#15803d", "#7c3aed", "#dc2626", "#0891b2")
_STYLE = """
:root{--ink:#1b2430;--soft:#5c6875;--line:#dde3ea;--paper:#fff;--used:#2563eb}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#98a3b0;--line:#2c3440;--paper:#12161c;--used:#7aa7ff}}
body{margin:0;background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,sans-serif}
main{max-width:1360px;margin:0 auto;padding:28px 22px 60px}.soft{color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:14px 0 30px}th,td{text-align:right;
padding:6px 10px;border-bottom:1px solid var(--line);white-space:nowrap}h2{overflow-wrap:anywhere;margin-bottom:4px}
th{white-space:normal;vertical-align:bottom}th:nth-child(-n+2),td:nth-child(-n+2){text-align:left}
details{margin:0 0 6px}summary{cursor:pointer;color:var(--soft)}
.legend{position:sticky;top:0;background:var(--paper);padding:6px 0;margin:0}
svg{width:100%;height:auto;display:block;margin-bottom:10px}path{fill:none;stroke-width:1.4}.used{stroke:var(--used)}.grid{stroke:var(--line);stroke-width:1}
.warn{border-left:4px solid #dc2626;padding:6px 14px}text{fill:var(--soft);font-size:11px;stroke:var(--paper);
stroke-width:3px;paint-order:stroke}.y{text-anchor:end}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def as_page(history: History, results: list[Result]) -> str:
    return "".join(_parts(history, results))


def _parts(history: History, results: list[Result]) -> Iterator[str]:
    yield head("Backtest", f"{len(history.names)} containers")
    if history.missing:
        items = "".join(f"<li>{escape(item)}</li>" for item in history.missing)
        yield f'<div class="warn" id="partial"><b>These results are partial.</b><ul>{items}</ul></div>'
    yield html_table(HEADS, [cells(result, result.total) for result in results])
    yield from charts(history, results, numbers=True)
    yield "</main></body></html>\n"


def head(title: str, words: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1>"
        f'<p class="soft">{escape(words)}</p>'
    )


def html_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def charts(history: History, results: list[Result], numbers: bool = False) -> Iterator[str]:
    """Charts of usage and sizes, with collapsible numbers, for the containers whose sizes cost most."""
    yield _legend(results)
    shown = _worst(history, results)
    for at in shown:
        yield f"<h2>{escape(history.names[at])}</h2>"
        if numbers:
            rows = html_table(HEADS, [cells(result, result.each[at]) for result in results])
            yield f"<details><summary>Numbers</summary>{rows}</details>"
        for resource in history.series:
            yield _chart(history, [result for result in results if result.resource == resource], resource, at)
    if left := len(history.names) - len(shown):
        yield f'<p class="soft">Charts of {left} more are left out: the sizes of those above cost most.</p>'


def _worst(history: History, results: list[Result]) -> list[int]:
    cost = np.zeros(len(history.names))
    for result in results:
        cost += np.array([quality.cost(result.costs) for quality in result.each])
    return [int(at) for at in np.argsort(-cost, kind="stable")[:CHARTS]]


def _colours(results: list[Result]) -> dict[str, str]:
    names = list(dict.fromkeys(result.policy for result in results))
    return {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}


def _legend(results: list[Result]) -> str:
    words = "".join(f' · <b style="color:{colour}">{escape(name)}</b>' for name, colour in _colours(results).items())
    return f'<p class="legend"><b style="color:var(--used)">usage</b>{words}</p>'


def _chart(history: History, results: list[Result], resource: str, at: int) -> str:
    used = history.series[resource].usage[at]
    lines = [used, *(result.sizes[at] for result in results)]
    known = [float(np.nanmax(line)) for line in lines if not np.isnan(line).all()]
    if not known:
        return f'<p class="soft">no {resource} sample</p>'
    top = max(known) or 1.0
    colours = _colours(results)
    drawn = f'<path class="used" d="{_path(used, top)}"/>'
    for result in results:
        drawn += f'<path stroke="{colours[result.policy]}" d="{_path(result.sizes[at], top)}"/>'
    unit, scale = ("cores", 1.0) if resource == CPU else ("GiB", GIB)
    grid = _grid(len(used), history.series[resource].day)
    return (
        f'<svg viewBox="{-LEFT} 0 {WIDTH + LEFT} {HEIGHT + 16}" role="img" aria-label="{resource} used and sized">'
        f'{grid}{drawn}<text y="11">{resource}, {unit}</text>{_axis(top / scale)}</svg>'
    )


def _axis(top: float) -> str:
    values = ((16, top), (MIDDLE, top / 2), (HEIGHT, 0.0))
    return "".join(f'<text class="y" x="-5" y="{y + 4}">{value:.3g}</text>' for y, value in values)


def _grid(samples: int, day: int) -> str:
    """Grid lines at zero, half and the maximum, and at the start of days; for a short history every third hour."""
    lines = "".join(f"M0 {y}H{WIDTH}" for y in (HEIGHT, MIDDLE, 16))
    days, words = -(-samples // day), ""
    marks = [(number * day, f"day {number + 1}") for number in range(0, days, -(-days // MOST_DAYS))]
    if days <= SHORT_DAYS:
        marks += [(day * hour // 24, f"{hour % 24} h") for hour in range(3, days * 24, 3) if hour % 24]
    for sample, name in marks:
        if sample < samples:
            x = sample * WIDTH / samples
            lines += f"M{x:.1f} 16V{HEIGHT}"
            words += f'<text x="{x:.1f}" y="{HEIGHT + 13}">{name}</text>'
    return f'<path class="grid" d="{lines}"/>{words}'


def _path(values: Floats, top: float) -> str:
    """The line of a chart. Its number of points is limited: each is the maximum of an interval. Gaps are preserved."""
    step = max(1, -(-len(values) // POINTS))
    padded = np.full(-(-len(values) // step) * step, np.nan)
    padded[: len(values)] = values
    parts = np.where(np.isnan(padded), -np.inf, padded).reshape(-1, step).max(1)
    out, pen = [], "M"
    for number, value in enumerate(parts):
        if np.isinf(value):
            pen = "M"
            continue
        out.append(f"{pen}{number * WIDTH / max(1, len(parts)):.1f} {HEIGHT - value / top * (HEIGHT - 16):.1f}")
        pen = "L"
    return "".join(out)
