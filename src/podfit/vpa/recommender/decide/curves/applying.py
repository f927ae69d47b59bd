"""Turns the sizes of policies into estimates: target and bounds, in millicores and bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from podfit.vpa.model.objects.policy import IN_PLACE_MODES, update_mode
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.curves.sizing import PolicySizes
from podfit.vpa.recommender.decide.histograms.cluster import Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Amounts, Estimate, minimums, restricted

LEAST: Mapping[str, int] = {"cpu": 10, "memory": 32 << 20}
"""10m and 32Mi, unless the flags of the smallest pod are set: their defaults are meant for histograms of few
samples."""
NEAR = 0.05
"""In place a pod is resized when it differs from its target by this fraction."""


def least_of(config: Config) -> Amounts:
    configured, usual = minimums(config, 1), minimums(Config(), 1)
    return {name: configured[name] if configured[name] != usual[name] else amount for name, amount in LEAST.items()}


def amount_of(resource: str, size: float) -> int:
    """Converts cores or bytes to millicores or bytes, rounded up."""
    return math.ceil(round(size * 1000.0, 6)) if resource == "cpu" else math.ceil(size)


def given_by_policy(
    vpa: Vpa, before: Mapping[str, Estimate], given: Mapping[str, PolicySizes], config: Config
) -> dict[str, Estimate]:
    """The policy's own sizes by container, for the resources that it has decided."""
    found = dict(before)
    with_policy(vpa, found, given, config)
    return {
        name: restricted(found[name], estimate.size)
        for name, estimate in given.items()
        if name in found and estimate.size
    }


def with_policy(vpa: Vpa, estimates: dict[str, Estimate], given: Mapping[str, PolicySizes], config: Config) -> None:
    """Replaces estimates by the policy's sizes; a container or resource without one keeps its histogram's estimates."""
    narrow = update_mode(vpa.object) in IN_PLACE_MODES
    least = least_of(config)
    for name, estimate in given.items():
        before = estimates.get(name)
        if before is None or estimate.failed:
            continue
        target = {
            resource: max(least[resource], amount_of(resource, estimate.size[resource]))
            if resource in estimate.size
            else before.target[resource]
            for resource in before.target
        }
        estimates[name] = _bounded(target, before, {*estimate.size} & {*target}, narrow)


def _bounded(target: Amounts, before: Estimate, sized: set[str], narrow: bool) -> Estimate:
    """Bounds near the target if changes are made in place; otherwise the usual bounds, widened to enclose the
    target."""
    lower, upper = dict(before.lower), dict(before.upper)
    for name in sized:
        if narrow:
            lower[name], upper[name] = int(target[name] * (1 - NEAR)), math.ceil(target[name] * (1 + NEAR))
        else:
            lower[name], upper[name] = min(lower[name], target[name]), max(upper[name], target[name])
    return Estimate(target, lower, upper)
