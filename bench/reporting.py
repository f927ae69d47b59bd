"""The results of benchmarks as tables: rows with a measured value and a goal, and percentiles of durations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    what: str
    measured: str
    goal: str = ""


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread_ms(seconds: Sequence[float]) -> str:
    """p50 / p99 / max in milliseconds."""
    shown = (percentile(seconds, 0.5), percentile(seconds, 0.99), max(seconds))
    return "p50 {:.2f} ms, p99 {:.2f} ms, max {:.1f} ms".format(*(one * 1000 for one in shown))


def print_table(title: str, rows: Sequence[Row]) -> None:
    print(f"\n## {title}\n\n| what | measured | goal |\n|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.measured} | {row.goal} |", flush=True)
