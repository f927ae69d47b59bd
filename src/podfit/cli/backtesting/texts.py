"""The numbers of a backtest as words."""

from __future__ import annotations

from podfit.cli.backtesting.results import Result
from podfit.vpa.policies.base import CPU
from podfit.vpa.policies.quality import Quality

HEADS = ("POLICY", "RESOURCE", "SLACK", "SHORT", "DAYS SHORT", "CUT OFF", "RESIZES/DAY", "RESTARTS/DAY", "IDLE", "COST")


def cells(result: Result, quality: Quality) -> list[str]:
    row = result.row(quality)

    def part(name: str, digits: int) -> str:
        return "-" if row[name] is None else f"{row[name]:.{digits}%}"

    def number(name: str) -> str:
        return "-" if row[name] is None else f"{row[name]:.2f}"

    unit = "core-h" if result.resource == CPU else "GiB-h"
    return [
        result.policy + (" (partial)" if row["partial"] else ""),
        result.resource,
        part("slack", 1),
        part("samplesShort", 2),
        part("daysShort", 1),
        part("cutOff", 2),
        number("resizesADay"),
        number("restartsADay"),
        f"{row['idleHours']:.1f} {unit}",
        f"{row['cost']:.1f} {unit}",
    ]
