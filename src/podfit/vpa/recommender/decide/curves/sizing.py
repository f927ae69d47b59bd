"""Runs a policy on curves: the size in force now, and the quality of its sizes. Invalid sizes are reported.

A policy that fails on one container must not affect others, so a group that fails is halved until the failing
containers are found. After `MOST_RUNS` runs the rest of the group counts as failed, with the same cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import CPU, RESOURCES, Costs, InvalidSizes, Policy, UsageSeries, sizes_of
from podfit.vpa.policies.quality import Quality, qualities_of
from podfit.vpa.recommender.decide.curves.curves import HOUR, SLOT_S, Curves
from podfit.vpa.recommender.decide.fleet.arena import Ints

MOST_RUNS = 32
UNSIZED_SLOTS = 2 * HOUR
"""Slots after its first sample in which a container may have no size."""
ABSURD = {CPU: 1e6, "memory": 2.0**60}
GROUP = 512


@dataclass(frozen=True, slots=True)
class PolicySizes:
    """A policy's result for one container. `size` is in cores and bytes; a resource without one is omitted."""

    size: dict[str, float]
    quality: dict[str, Quality]
    failed: str = ""
    """Why there is no size, or no quality; empty if there is."""


def sized(curves: Curves, policy: Policy, wanted: Ints, until: int, costs: Costs) -> dict[int, PolicySizes]:
    """The sizes in force in slot `until`, computed from all slots before it, by curve. Curves without a sample are
    omitted."""
    found: dict[int, PolicySizes] = {}
    wanted = wanted[curves.first[wanted] < until]
    begins = curves.begins(wanted, until)
    for begin in np.unique(begins).tolist():
        group = wanted[begins == begin]
        for start in range(0, len(group), GROUP):
            part = group[start : start + GROUP]
            usage = {name: _open_end(curves.usage(part, begin, until, name)) for name in RESOURCES}
            found.update(_run(policy, part, usage, costs))
    return found


def _open_end(usage: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([usage, np.full((len(usage), 1), np.nan, np.float32)], axis=1)


def _run(
    policy: Policy, part: Ints, usage: dict[str, NDArray[np.float32]], costs: Costs
) -> Iterator[tuple[int, PolicySizes]]:
    waiting, runs = [np.arange(len(part))], 0
    while waiting:
        rows = waiting.pop()
        runs += 1
        try:
            answers = [_sizes(policy, UsageSeries(usage[name][rows], SLOT_S, name), costs) for name in RESOURCES]
        except Exception as error:
            if len(rows) > 1 and runs < MOST_RUNS:
                waiting += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
                continue
            words = str(error) if isinstance(error, InvalidSizes) else f"policy {policy.name} failed: {_words(error)}"
            yield from ((int(part[row]), PolicySizes({}, {}, words)) for row in rows)
            continue
        yield from _answers(policy.name, part[rows], answers)


Answer = tuple[NDArray[np.float64], list[Quality], NDArray[np.bool_]]


def _sizes(policy: Policy, series: UsageSeries, costs: Costs) -> Answer:
    sizes = sizes_of(policy, series, costs)
    late = np.isfinite(series.usage[:, : max(0, series.usage.shape[1] - UNSIZED_SLOTS)]).any(1)
    return sizes[:, -1].astype(np.float64), qualities_of(series, sizes), np.asarray(late)


def _answers(name: str, curves: Ints, answers: list[Answer]) -> Iterator[tuple[int, PolicySizes]]:
    for row, curve in enumerate(curves.tolist()):
        size: dict[str, float] = {}
        quality: dict[str, Quality] = {}
        failed = ""
        for resource, (sizes, judged, late) in zip(RESOURCES, answers, strict=True):
            amount = float(sizes[row])
            if np.isnan(amount):
                failed = failed or (f"policy {name} returned no size of {resource}" if late[row] else "")
            elif amount > ABSURD[resource] or amount == 0:
                failed = failed or f"policy {name} returned {amount:g} as a size of {resource}"
            else:
                size[resource] = amount
                quality[resource] = judged[row]
        yield curve, PolicySizes({}, {}, failed) if failed else PolicySizes(size, quality)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
