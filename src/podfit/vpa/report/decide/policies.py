"""Computes sizes with a policy other than the default one, from the curves. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from podfit.vpa.policies.base import CPU, MEMORY, Costs, Policy, UsageSeries, sizes_of
from podfit.vpa.policies.table import POLICIES
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.report.cluster.workloads import Key
from podfit.vpa.report.usage.evidence import Curve, Floats, Known

DEFAULT = "default"
LEAST: Mapping[str, int] = {CPU: 10, MEMORY: 32 << 20}
"""Without an explicit minimum: 10m and 32Mi. The default policy has its own."""


def by_policy(known: Known, name: str, costs: Costs | None = None) -> tuple[Known, int]:
    """The same evidence with the sizes of this policy, and the number of containers that keep the default's because
    there is no curve of their usage. One series represents a container: at each step the pod with the highest usage."""
    if name == DEFAULT:
        return known, 0
    found = dict(known)
    steps: dict[tuple[float, int], list[tuple[Key, str]]] = {}
    for at, estimate in known.items():
        if estimate.curve is not None:
            steps.setdefault((estimate.curve.step, len(estimate.curve.cpu)), []).append(at)
    for (step, _), group in steps.items():
        sized = {resource: _sizes(known, group, POLICIES[name], costs, resource, step) for resource in (CPU, MEMORY)}
        for row, at in enumerate(group):
            amounts = {
                resource: max(LEAST[resource], math.ceil(values[row]))
                for resource, values in sized.items()
                if math.isfinite(values[row])
            }
            evidence = known[at]
            found[at] = replace(evidence, size=Estimate(amounts, amounts, amounts), policy=name)
    return found, sum(estimate.curve is None for estimate in known.values())


def _sizes(
    known: Known, group: list[tuple[Key, str]], policy: Policy, costs: Costs | None, resource: str, step: float
) -> list[float]:
    """The sizes in millicores or bytes for the time after the last sample; NaN if the policy has not decided."""
    curves = [known[at].curve for at in group]
    usage = np.stack([_usage(curve, resource) for curve in curves if curve is not None])
    after = np.concatenate((usage, np.full((len(usage), 1), np.nan, np.float32)), axis=1)
    sizes = sizes_of(policy, UsageSeries(after, step, resource), costs)
    unit = 1000.0 if resource == CPU else 1.0
    return [float(size) * unit for size in sizes[:, -1]]


def _usage(curve: Curve, resource: str) -> Floats:
    return curve.cpu if resource == CPU else curve.memory
