"""Computes recommended requests and limits from a container's usage, with reasons. Pure.

Limits keep their ratio to the request, as in the autoscaler, with two guards: no memory limit is below the highest
usage, and no size is below a language runtime's heap. A request that equals its limit stays equal, so that the pod
keeps its QoS class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from podfit.vpa.report.usage.evidence import Evidence
from podfit.vpa.runtimes.heaps import Heap

MI = 1 << 20
RESOURCES = ("cpu", "memory")
PEAK_MARGIN = 1.1
"""A memory limit is at least this multiple of the highest usage."""
THROTTLED_ABOVE, THROTTLED_GROWTH = 0.25, 1.5
NEAR_OOM = 0.9
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ContainerSizes:
    """The requests and limits of a container, in millicores and bytes."""

    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)

    def request(self, resource: str) -> int | None:
        """The request; if only a limit is set, that is also the request."""
        return self.requests.get(resource, self.limits.get(resource))


@dataclass(frozen=True, slots=True)
class SizeBounds:
    """The bounds of a recommendation."""

    least: Amounts = field(default_factory=dict)
    most: Amounts = field(default_factory=dict)
    keep_limits: bool = False


@dataclass(frozen=True, slots=True)
class Sizing:
    sizes: ContainerSizes
    why: tuple[str, ...]


def sized(now: ContainerSizes, evidence: Evidence, heap: Heap | None, bounds: SizeBounds) -> Sizing:
    """Sizes a container. Resources without samples are omitted."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    why: list[str] = []
    for resource, target in evidence.size.target.items():
        amount, reasons = _request(resource, target, now, evidence, heap)
        amount, bounded = _within(resource, amount, bounds)
        limit = now.limits.get(resource)
        if limit and not bounds.keep_limits:
            least, more = _least_limit(resource, now, evidence, heap)
            limits[resource] = max(amount, least, _scaled(limit, now.request(resource), amount))
            limits[resource] = min(limits[resource], bounds.most.get(resource, limits[resource]))
            reasons += more if limits[resource] == least else []
            if now.request(resource) == limit:
                amount = limits[resource]
        elif limit:
            amount = min(amount, limit)
        requests[resource] = rounded(resource, amount)
        if resource in limits:
            limits[resource] = max(requests[resource], rounded(resource, limits[resource]))
        why += [*reasons, *bounded]
    return Sizing(ContainerSizes(requests, limits), tuple(why))


def _request(
    resource: str, target: int, now: ContainerSizes, evidence: Evidence, heap: Heap | None
) -> tuple[int, list[str]]:
    if resource == "memory":
        rule = "daily peaks, newest weighted most" if evidence.policy == "default" else f"policy {evidence.policy}"
        words = [f"memory: {rule}; highest {_text(resource, evidence.used)}"]
        if evidence.ooms:
            words.append(f"memory: {evidence.ooms} out-of-memory kills raised it")
        if heap is not None and heap.floor > target:
            return heap.floor, [*words, f"memory: not below its heap: {heap.words}"]
        return target, words
    rule = f"policy {evidence.policy}"
    if evidence.policy == "default":
        enough = target >= evidence.used.get("cpu", 0)
        rule = "sufficient nearly always" if enough else "newest usage weighted most; usage was higher before"
    words = [f"cpu: {rule} (95 % of the time {_text(resource, evidence.used)})"]
    limit = now.limits.get("cpu")
    if limit and _held_back(evidence):
        return max(target, min(limit, math.ceil(target * THROTTLED_GROWTH))), [*words, _throttled_words(evidence)]
    return target, words


def _least_limit(resource: str, now: ContainerSizes, evidence: Evidence, heap: Heap | None) -> tuple[int, list[str]]:
    if resource == "memory":
        peak = math.ceil(evidence.used.get("memory", 0) * PEAK_MARGIN)
        if heap is not None and heap.floor > peak:
            return heap.floor, []
        return peak, ["memory: the limit stays 10 % above the highest usage"]
    if _held_back(evidence):
        return math.ceil(now.limits["cpu"] * THROTTLED_GROWTH), ["cpu: the limit is raised because usage reaches it"]
    return 0, []


def _held_back(evidence: Evidence) -> bool:
    return evidence.throttled is not None and evidence.throttled >= THROTTLED_ABOVE


def _throttled_words(evidence: Evidence) -> str:
    return f"cpu: throttled at its limit in {100 * (evidence.throttled or 0):.0f} % of the periods"


def _within(resource: str, amount: int, bounds: SizeBounds) -> tuple[int, list[str]]:
    least, most = bounds.least.get(resource, 0), bounds.most.get(resource)
    if amount < least:
        return least, [f"{resource}: not below the configured minimum"]
    if most is not None and amount > most:
        return most, [
            (f"{resource}: {_text(resource, {resource: amount})} would fit, but the configured maximum is lower")
        ]
    return amount, []


def _scaled(limit: int, request: int | None, amount: int) -> int:
    return limit * amount // request if request else amount


def rounded(resource: str, amount: int) -> int:
    """Rounds up to whole millicores or whole MiB, for readability."""
    return max(1, amount) if resource == "cpu" else max(MI, math.ceil(amount / MI) * MI)


def risks(now: ContainerSizes, evidence: Evidence | None, killed: bool) -> tuple[str, ...]:
    """The risks of the current sizes, most severe first."""
    found = []
    if killed or (evidence is not None and evidence.ooms):
        found.append("OOM-killed")
    if evidence is None:
        return tuple(found)
    peak, limit = evidence.used.get("memory", 0), now.limits.get("memory")
    if limit and peak >= NEAR_OOM * limit and not found:
        found.append("near OOM")
    request = now.request("memory")
    if request and peak > request and "near OOM" not in found and not limit:
        found.append("over memory request")
    most = now.limits.get("cpu")
    if _held_back(evidence) or (most and evidence.throttled is None and evidence.used.get("cpu", 0) >= NEAR_OOM * most):
        found.append("throttled")
    return tuple(found)


def _text(resource: str, amounts: Amounts) -> str:
    amount = amounts.get(resource)
    if amount is None:
        return "unknown"
    return f"{amount}m" if resource == "cpu" else f"{amount / MI:.0f}Mi"
