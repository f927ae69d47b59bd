"""Applies policies to a history, and scores the resulting sizes per container and in total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podfit.cli.backtesting.history import BadHistory, History
from podfit.vpa.policies.base import CPU, GIB, Costs, Floats, Policy, UsageSeries, sizes_of
from podfit.vpa.policies.default import Default
from podfit.vpa.policies.krr import Krr
from podfit.vpa.policies.prices import PRICES
from podfit.vpa.policies.quality import Quality, qualities_of, quality_of, total_of

RECREATE, IN_PLACE = "recreate", "in-place"
MODES = (IN_PLACE, RECREATE)


def _finite_or(value: float, otherwise: float) -> float:
    return otherwise if np.isnan(value) else value


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Overrides of the policies' own settings; NaN: unchanged."""

    costs: Costs
    bounds: Mapping[str, tuple[float, float]]
    """The minimum and maximum by resource, in cores and bytes."""
    percentile: float = float("nan")
    margin: float = float("nan")
    mode: str = IN_PLACE

    def applied(self, policy: Policy) -> Policy:
        """`percentile` and `margin` are settings of `default` and `krr`; the others choose their own."""
        margin, both = self.margin, self.percentile
        if isinstance(policy, Krr):
            return Krr(percentile=_finite_or(both, policy.percentile), margin=_finite_or(margin, policy.margin))
        if isinstance(policy, Default):
            config = policy.config
            return Default(
                config=replace(
                    config,
                    target_cpu_percentile=_finite_or(both, config.target_cpu_percentile),
                    target_memory_percentile=_finite_or(both, config.target_memory_percentile),
                    recommendation_margin_fraction=_finite_or(margin, config.recommendation_margin_fraction),
                )
            )
        return policy

    def without_effect(self, policy: Policy) -> list[str]:
        """The settings given that this policy does not have."""
        given = {"percentile": self.percentile, "margin": self.margin}
        named = [name for name, value in given.items() if not np.isnan(value)]
        return [] if isinstance(policy, (Krr, Default)) else named

    def within(self, series: UsageSeries, sizes: Floats) -> Floats:
        least, most = self.bounds.get(series.resource, (0.0, float("inf")))
        return np.asarray(np.clip(sizes, np.float32(least), np.float32(most)))


@dataclass(frozen=True, slots=True)
class Result:
    """One policy and one resource; `each` has the containers in the order of the history."""

    policy: str
    resource: str
    total: Quality
    each: tuple[Quality, ...]
    sizes: Floats
    costs: Costs
    mode: str

    def row(self, quality: Quality) -> dict[str, Any]:
        """Numbers for tables and JSON; None if there is nothing to score."""
        recreated = quality.changes_a_day if self.mode == RECREATE else 0.0
        kills = quality.days_short if self.resource != CPU else 0.0
        found = {
            "slack": quality.slack,
            "samplesShort": quality.short,
            "daysShort": quality.days_short,
            "cutOff": quality.cut,
            "resizesADay": quality.changes_a_day,
            "restartsADay": recreated + kills,
            "idleHours": quality.idle_hours,
            "cost": quality.cost(self.costs),
        }
        known: dict[str, Any] = {
            name: None if np.isnan(value) or not quality.scored else round(value, 6) for name, value in found.items()
        }
        return {**known, "partial": quality.partial}


def judged(history: History, policies: list[Policy], what_if: WhatIf) -> list[Result]:
    results = []
    for policy in (what_if.applied(given) for given in policies):
        for resource, series in history.series.items():
            sizes = what_if.within(series, sizes_of(policy, series, what_if.costs))
            each = tuple(qualities_of(series, sizes))
            total = total_of(each) if each else quality_of(series, sizes)
            results.append(Result(policy.name, resource, total, each, sizes, what_if.costs, what_if.mode))
    return results


def completed(history: History, results: list[Result]) -> History:
    """The history, with notes about data that was missing when the policies were applied to it."""
    unsized: dict[str, list[str]] = {}
    for result in results:
        samples = sum(quality.samples - quality.scored for quality in result.each)
        if samples:
            words = f"{samples} {result.resource} samples were taken before their container had a size"
            unsized.setdefault(words, []).append(result.policy)
    found = tuple(f"{words} ({', '.join(policies)})" for words, policies in unsized.items())
    return replace(history, missing=(*history.missing, *found))


def check_effects(overrides: WhatIf, policies: list[Policy]) -> list[str]:
    """Notes about policies that lack some of the settings. Raises BadHistory if none of them has them."""
    lacking = {policy.name: found for policy in policies if (found := overrides.without_effect(policy))}
    if not lacking:
        return []
    which, settings = " and ".join(lacking), " and ".join(next(iter(lacking.values())))
    if len(lacking) == len(policies):
        raise BadHistory(f"--what-if: default and krr have {settings}, {which} {_choose(len(lacking))} by cost")
    return [f"--what-if {settings} does not apply to {which}"]


def _choose(count: int) -> str:
    return "chooses" if count == 1 else "choose"


def what_if_of(words: list[str]) -> WhatIf:
    """Parses `NAME=VALUE`: bounds, prices, percentile, margin, mode. Raises BadHistory for an unknown name."""
    found = WhatIf(Costs(), {})
    bounds: dict[str, list[float]] = {"cpu": [0.0, float("inf")], "memory": [0.0, float("inf")]}
    for word in words:
        name, _, text = word.partition("=")
        if name == "mode":
            if text not in MODES:
                raise BadHistory(f"--what-if mode={text}: it is one of {', '.join(MODES)}")
            found = replace(found, mode=text)
            continue
        value = _number(word, name, text)
        side, _, resource = name.partition("-")
        if side in ("min", "max") and resource in bounds:
            bounds[resource][side == "max"] = value
        elif name in PRICES:
            found = replace(found, costs=replace(found.costs, **{PRICES[name]: value}))
        elif name == "percentile":
            found = replace(found, percentile=value)
        elif name == "margin":
            found = replace(found, margin=value)
        else:
            raise BadHistory(
                f"--what-if {word}: unknown setting {name!r}: it is one of min-cpu, max-cpu, min-memory, max-memory, "
                f"{', '.join(PRICES)}, percentile, margin, mode"
            )
    for resource, (least, most) in bounds.items():
        if least > most:
            raise BadHistory(f"--what-if: min-{resource} is above max-{resource}")
    return replace(found, bounds={resource: (least, most) for resource, (least, most) in bounds.items()})


def _number(word: str, name: str, text: str) -> float:
    from podfit.api.quantity import Quantity

    try:
        value = Quantity.parse(text).milli / 1000.0
    except ValueError as error:
        raise BadHistory(f"--what-if {word}: {text!r} is no quantity") from error
    if value < 0 or (name == "percentile" and not 0 < value <= 1):
        raise BadHistory(f"--what-if {word}: {name} cannot be {text}")
    return value


def as_object(history: History, results: list[Result]) -> dict[str, Any]:
    """The output of `-o json`."""
    return {
        "kind": "BacktestReport",
        "partial": bool(history.missing),
        "missing": list(history.missing),
        "units": {"idleHours": {"cpu": "core-hours", "memory": f"GiB-hours ({GIB:.0f} bytes)"}},
        "policies": [
            {
                "policy": result.policy,
                "resource": result.resource,
                "mode": result.mode,
                "total": result.row(result.total),
                "containers": [
                    {"name": name, **result.row(quality)}
                    for name, quality in zip(history.names, result.each, strict=True)
                ],
            }
            for result in results
        ],
    }
