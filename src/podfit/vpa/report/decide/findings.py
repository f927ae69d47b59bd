"""The rows of the report: a container of a workload with its sizes, the recommendation, waste and risks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from podfit.api.quantity import Quantity
from podfit.vpa.model.times import to_rfc3339
from podfit.vpa.report.cluster.workloads import Key, Workload
from podfit.vpa.report.decide.sizing import RESOURCES, ContainerSizes, SizeBounds, risks, sized
from podfit.vpa.report.usage.evidence import Evidence, Known
from podfit.vpa.runtimes.heaps import Heap, heap_of

GI = 1 << 30
HOURS_A_MONTH = 730.0
CORE_IN_GIB = 7.5
"""The value of a core-hour in GiB-hours, for sorting without prices."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices of a core-hour and of a GiB-hour."""

    cpu: float = 0.0
    memory: float = 0.0

    @property
    def given(self) -> bool:
        return bool(self.cpu or self.memory)

    def of(self, resource: str) -> float:
        """The price of a millicore-hour or a byte-hour."""
        return self.cpu / 1000.0 if resource == "cpu" else self.memory / GI


@dataclass(frozen=True, slots=True)
class Finding:
    key: Key
    container: str
    field_name: str
    """containers or initContainers."""
    replicas: int
    now: ContainerSizes
    recommended: ContainerSizes
    evidence: Evidence | None
    heap: Heap | None = None
    why: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def wasted(self, resource: str) -> int | None:
        """The amount that all pods request beyond the recommendation; negative if they need more, None if it is
        unknown."""
        now, fits = self.now.requests.get(resource), self.recommended.requests.get(resource)
        return None if now is None or fits is None else (now - fits) * self.replicas

    @property
    def waste(self) -> float:
        """The waste in GiB-hours per hour, for sorting."""
        cpu, memory = (max(0, self.wasted(resource) or 0) for resource in RESOURCES)
        return cpu / 1000.0 * CORE_IN_GIB + memory / GI

    def unknown(self, resource: str) -> bool:
        """Whether a resource is requested, but there is no usage to compare the request with."""
        return resource in self.now.requests and resource not in self.recommended.requests

    def monthly(self, prices: Prices) -> float | None:
        """The monthly cost of the waste; negative if the pods need more, None if part of it is unknown."""
        if not self.recommended.requests or any(self.unknown(name) and prices.of(name) for name in RESOURCES):
            return None
        return sum((self.wasted(name) or 0) * prices.of(name) for name in RESOURCES) * HOURS_A_MONTH

    def changes(self, least: float) -> ContainerSizes:
        """The sizes that differ from the current ones by more than this fraction."""
        requests = {
            resource: amount
            for resource, amount in self.recommended.requests.items()
            if _off(self.now.requests.get(resource), amount, least)
            or _off(self.now.limits.get(resource), self.recommended.limits.get(resource), least)
        }
        return ContainerSizes(
            requests, {name: amount for name, amount in self.recommended.limits.items() if name in requests}
        )


def _off(now: int | None, amount: int | None, least: float) -> bool:
    if amount is None:
        return False
    return now is None or abs(now - amount) > least * now


@dataclass(frozen=True, slots=True)
class Report:
    findings: Sequence[Finding]
    cluster: str
    policy: str
    prices: Prices
    made: float
    sources: Sequence[str] = ()
    notes: Sequence[str] = ()
    missing: Sequence[str] = ()
    """Why the report is partial; empty for a complete one."""

    def total(self, resource: str) -> int | None:
        """The total waste; None if no recommendation for the resource is known."""
        if not any(resource in finding.recommended.requests for finding in self.findings):
            return None
        return sum(max(0, finding.wasted(resource) or 0) for finding in self.findings)

    def short(self, resource: str) -> int:
        return -sum(min(0, finding.wasted(resource) or 0) for finding in self.findings)

    @property
    def monthly(self) -> float | None:
        """The monthly cost for the containers whose waste is known; None if there are none, or if a priced resource has
        no data."""
        if any(self.prices.of(name) and self.total(name) is None for name in RESOURCES):
            return None
        known = [cost for finding in self.findings if (cost := finding.monthly(self.prices)) is not None]
        return sum(known) if known else None

    @property
    def without(self) -> int:
        """The number of containers without any data."""
        return sum(not finding.recommended.requests for finding in self.findings)

    @property
    def at_risk(self) -> int:
        return sum(bool(finding.risks) for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Rules:
    bounds: SizeBounds = field(default_factory=SizeBounds)
    runtimes: bool = True
    """Whether heap settings of language runtimes are a floor."""


def findings(workloads: Iterable[Workload], known: Known, rules: Rules) -> list[Finding]:
    by_workload: dict[Key, dict[str, Evidence]] = {}
    for (key, container), evidence in known.items():
        by_workload.setdefault(key, {})[container] = evidence
    return [
        _finding(workload, field_name, container, by_workload.get(workload.key, {}), rules)
        for workload in workloads
        for field_name, container in workload.containers
    ]


def _finding(
    workload: Workload, field_name: str, container: Mapping[str, Any], known: Mapping[str, Evidence], rules: Rules
) -> Finding:
    name = container.get("name") or ""
    evidence = known.get(name)
    now, notes = _now(workload, field_name, container)
    heap = heap_of(container) if rules.runtimes else None
    recommended, why = ContainerSizes(), tuple[str, ...]()
    if evidence is not None and evidence.size.target:
        verdict = sized(now, evidence, heap, rules.bounds)
        recommended, why = verdict.sizes, verdict.why
        memory = recommended.requests.get("memory")
        if heap is not None and memory is not None and memory != now.request("memory"):
            notes.append(heap.restart)
    else:
        notes += _nothing(workload, name, known)
    return Finding(
        workload.key,
        name,
        field_name,
        workload.replicas,
        now,
        recommended,
        evidence,
        heap,
        why,
        risks(now, evidence, _killed(workload, name)),
        tuple(notes),
    )


def _nothing(workload: Workload, name: str, known: Mapping[str, Evidence]) -> list[str]:
    """Explains why there is no recommendation. If one container's samples ended and another one has no past, they may
    be the same container before and after a rename."""
    there = {container.get("name") for _, container in workload.containers}
    old = {other: estimate for other, estimate in known.items() if other not in there and estimate.size.target}
    if len(old) == 1:
        (other, estimate), *_ = old.items()
        return [f"no usage of {name}; {other}, since deleted, was measured until {to_rfc3339(estimate.last)}: renamed?"]
    return [f"no usage of {name} is known: no recommendation"]


def _now(workload: Workload, field_name: str, container: Mapping[str, Any]) -> tuple[ContainerSizes, list[str]]:
    """The current sizes: those of the template, or those to which all running pods were resized."""
    written = _sizes(container)
    running = [
        _sizes(own)
        for pod in workload.pods
        for own in (pod.get("spec") or {}).get(field_name) or ()
        if own.get("name") == container.get("name")
    ]
    if running and all(resources == running[0] for resources in running):
        same = running[0] == written
        return running[0], [] if same else ["pods were resized in place: the template still has the old sizes"]
    return written, ["pods differ in size: the template's is shown"] if running else []


def as_written(finding: Finding, workload: Workload) -> Finding:
    """The finding with the current sizes of the workload's template, even if its pods were resized."""
    for field_name, container in workload.containers:
        if (field_name, container.get("name")) == (finding.field_name, finding.container):
            written = _sizes(container)
            requests = {name: amount for name in RESOURCES if (amount := written.request(name)) is not None}
            return replace(finding, now=ContainerSizes(requests, written.limits))
    return finding


def _sizes(container: Mapping[str, Any]) -> ContainerSizes:
    resources = container.get("resources") or {}
    return ContainerSizes(_amounts(resources.get("requests")), _amounts(resources.get("limits")))


def _amounts(listed: Mapping[str, Any] | None) -> dict[str, int]:
    parsed = {name: Quantity.parse(value) for name, value in (listed or {}).items() if name in RESOURCES}
    return {name: amount.milli if name == "cpu" else amount.value for name, amount in parsed.items()}


def _killed(workload: Workload, container: str) -> bool:
    for pod in workload.pods:
        reported = pod.get("status") or {}
        for status in (*(reported.get("containerStatuses") or ()), *(reported.get("initContainerStatuses") or ())):
            if status.get("name") == container:
                states = (status.get("state") or {}, status.get("lastState") or {})
                if any((state.get("terminated") or {}).get("reason") == "OOMKilled" for state in states):
                    return True
    return False


ORDERS = {
    "waste": lambda finding: -finding.waste,
    "cpu": lambda finding: -(finding.wasted("cpu") or 0),
    "memory": lambda finding: -(finding.wasted("memory") or 0),
    "risk": lambda finding: (not finding.risks, finding.risks, -finding.waste),
    "name": lambda finding: (finding.key, finding.container),
}


def ordered(listed: Iterable[Finding], by: str) -> list[Finding]:
    return sorted(sorted(listed, key=ORDERS["name"]), key=ORDERS[by])
