"""Applies the results of squeeze probes to the sizes of an autoscaler's pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from podfit.api.objects import ObjectView
from podfit.api.pods.squeeze import asked_for, found_in
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, with_margin


def working_sets(vpa: ObjectView, pods: Iterable[ObjectView | None]) -> dict[str, int]:
    """The largest working set measured in a pod, by container; empty if the autoscaler does not enable probes."""
    found: dict[str, int] = {}
    if asked_for(vpa):
        for pod in pods:
            for name, amount in found_in(pod).items() if pod is not None else ():
                found[name] = max(found.get(name, 0), amount)
    return found


def squeezed(sizes: Mapping[str, Estimate], found: Mapping[str, int], margin: float) -> dict[str, Estimate]:
    """Caps memory targets and lower bounds at the working set plus the usual margin."""
    return {
        name: _capped(size, with_margin(found[name], margin)) if name in found else size for name, size in sizes.items()
    }


def _capped(size: Estimate, most: int) -> Estimate:
    if "memory" not in size.target or size.target["memory"] <= most:
        return size
    target, lower = ({**amounts, "memory": min(amounts["memory"], most)} for amounts in (size.target, size.lower))
    return replace(size, target=target, lower=lower)
