"""Formats the numbers of a backtest as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.cli.backtesting.results import Result
from podfit.vpa.policies.base import CPU
from podfit.vpa.policies.quality import Quality

HEADS = ("POLICY", "RESOURCE", "SLACK", "SHORT", "DAYS SHORT", "CUT OFF", "RESIZES/DAY", "RESTARTS/DAY", "IDLE", "COST")


def cells(result: Result, quality: Quality) -> list[str]:
    return row_cells(result.policy, result.resource, result.row(quality))


def row_cells(name: str, resource: str, row: Mapping[str, Any]) -> list[str]:
    """The cells of a table row, from the result of `Result.row`."""

    def part(field: str, digits: int) -> str:
        return "-" if row[field] is None else f"{row[field]:.{digits}%}"

    def number(field: str) -> str:
        return "-" if row[field] is None else f"{row[field]:.2f}"

    unit = "core-h" if resource == CPU else "GiB-h"

    def hours(field: str) -> str:
        return "-" if row[field] is None else f"{row[field]:.1f} {unit}"

    return [
        name + (" (partial)" if row["partial"] else ""),
        resource,
        part("slack", 1),
        part("samplesShort", 2),
        part("daysShort", 1),
        part("cutOff", 2),
        number("resizesADay"),
        number("restartsADay"),
        hours("idleHours"),
        hours("cost"),
    ]
