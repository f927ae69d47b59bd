"""A pod as the scheduler sees it: what it takes on a node, and what it asks of one.

`Resident` is a pod on a node (its usage is the largest of desired, allocated and actual); `Shape` is what matters of a
pod that wants a node, so that pods of one shape share everything computed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from podfit.api.resources import CPU, MEMORY, is_resize_infeasible, pod_requests
from podfit.api.status import Object
from podfit.kit.clock import parse_rfc3339
from podfit.scheduler.decide.owners import Family
from podfit.scheduler.decide.terms import NO_TERMS, Spread, Terms, spreads_of, terms_of

PODS = "pods"
MOST = 2**53
"""No pod asks for more and no node has as much: sums of a node's pods stay within 64 bits."""
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
"""What a container without a request counts for when nodes are compared (never when they are filled)."""

Key = tuple[str, str]
Port = tuple[str, str, int]
"""(address, protocol, port) on the host."""
_ANY_ADDRESS = "0.0.0.0"
_encode = msgspec.json.encode
_ANYWHERE = (None, None, None)
_ANYWHERE_KEY = _encode(_ANYWHERE)


@dataclass(slots=True)
class Needs:
    """Amounts in the snapshot's units: cpu in thousandths, everything else in whole units."""

    amounts: dict[str, int]
    nonzero_cpu: int
    nonzero_memory: int
    told: bytes = b""
    """The same for the same amounts."""


@dataclass(slots=True, eq=False)
class Resident:
    key: Key
    uid: str
    node: str
    needs: Needs
    priority: int
    labels: Mapping[str, str]
    ports: tuple[Port, ...]
    terms: Terms
    started: float
    terminating: bool
    pod: Object
    vector: tuple[tuple[int, int], ...] = ()
    """Amounts by column of the snapshot that holds the pod."""
    row: int = -1

    @property
    def namespace(self) -> str:
        return self.key[0]


@dataclass(slots=True, eq=False)
class Shape:
    key: bytes
    namespace: str
    labels: Mapping[str, str]
    spec: Object
    needs: Needs
    ports: tuple[Port, ...]
    terms: Terms
    spreads: tuple[Spread, ...]
    tolerations: list[Object] = field(default_factory=list)
    selector_key: bytes = b""
    defaults: tuple[Spread, ...] = ()
    """Soft constraints that a pod without its own has by default; they rule nothing out."""
    refused: str = ""
    """Why no node whatever can take it."""

    @property
    def relational(self) -> bool:
        """Whether where it fits depends on other pods beyond what they take."""
        return bool(self.terms or self.spreads)


def pod_key(pod: Object) -> Key:
    meta = pod["metadata"]
    return meta.get("namespace") or "", meta["name"]


def priority_of(pod: Object) -> int:
    return int((pod.get("spec") or {}).get("priority") or 0)


_REPORTED = ("containerStatuses", "initContainerStatuses", "resources")
"""Where a status tells amounts; one without any of them says no more than the spec does."""
_remembered: dict[bytes, Needs] = {}
_REMEMBER = 65536


def needs_of(pod: Object, use_status: bool) -> Needs:
    """Pods of one template ask for the same, so the answer is looked up by what it depends on."""
    spec, status = pod.get("spec") or {}, (pod.get("status") or {}) if use_status else {}
    reported = bool(status and any(status.get(field) for field in _REPORTED))
    told = _encode(
        (
            [(one.get("name"), one.get("resources")) for one in spec.get("containers") or ()],
            [(one.get("name"), one.get("resources"), one.get("restartPolicy")) for one in spec["initContainers"]]
            if spec.get("initContainers")
            else None,
            spec.get("resources"),
            spec.get("overhead"),
            _reported(status) if reported else None,
        )
    )
    found = _remembered.get(told)
    if found is None:
        if len(_remembered) >= _REMEMBER:
            _remembered.clear()
        found = _remembered[told] = _measure(pod, reported)
    return found


def _reported(status: Object) -> tuple[object, ...]:
    return (
        [
            (one.get("name"), one.get("resources"), one.get("allocatedResources"))
            for kind in ("containerStatuses", "initContainerStatuses")
            for one in status.get(kind) or ()
        ],
        status.get("resources"),
        status.get("allocatedResources"),
        is_resize_infeasible({"status": status}),
    )


def _measure(pod: Object, use_status: bool) -> Needs:
    amounts = {}
    for name, amount in pod_requests(pod, use_status=use_status).items():
        units = amount.milli if name == CPU else amount.value
        if units > 0:
            amounts[name] = min(units, MOST)
    cpu, memory = amounts.get(CPU, 0), amounts.get(MEMORY, 0)
    if not cpu or not memory:
        silent = len((pod.get("spec") or {}).get("containers") or ()) or 1
        cpu, memory = cpu or DEFAULT_CPU_MILLI * silent, memory or DEFAULT_MEMORY * silent
    return Needs(amounts, cpu, memory, _encode((sorted(amounts.items()), cpu, memory)))


def ports_of(spec: Object) -> tuple[Port, ...]:
    found = []
    containers = [*(spec.get("containers") or ())]
    containers += [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in containers:
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else 0)
            if number:
                found.append((port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", int(number)))
    return tuple(found)


def collide(one: str, other: str) -> bool:
    """Two addresses of the same port: the wildcard collides with all."""
    return one == other or _ANY_ADDRESS in (one, other)


_terms_seen: dict[bytes, Terms] = {}


def _terms(spec: Object, namespace: str, labels: Mapping[str, str]) -> Terms:
    affinity = spec.get("affinity")
    if not affinity or not (affinity.get("podAffinity") or affinity.get("podAntiAffinity")):
        return NO_TERMS
    told = _encode((affinity, namespace, labels))
    found = _terms_seen.get(told)
    if found is None:
        if len(_terms_seen) >= _REMEMBER:
            _terms_seen.clear()
        found = _terms_seen[told] = terms_of(spec, namespace, labels)
    return found


def resident(pod: Object, node: str = "") -> Resident:
    """`node` places a pod that is not bound yet."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    labels = meta.get("labels") or {}
    began = status.get("startTime")
    return Resident(
        pod_key(pod),
        meta.get("uid") or "",
        node or spec.get("nodeName") or "",
        needs_of(pod, use_status=True),
        priority_of(pod),
        labels,
        ports_of(spec),
        _terms(spec, meta.get("namespace") or "", labels),
        parse_rfc3339(began) if began else float("inf"),
        bool(meta.get("deletionTimestamp")),
        pod,
    )


def shape_of(
    pod: Object,
    cared_for: frozenset[str] | None,
    known: Callable[[bytes], Shape | None] = lambda key: None,
    family: Family | None = None,
    refused: str = "",
) -> Shape:
    """`cared_for` are the labels that running pods look at in others (None: they care for nobody): pods that differ in
    other labels only are of one shape. `family`: whom the pod is spread among if it does not say so itself."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    namespace, labels = meta.get("namespace") or "", meta.get("labels") or {}
    affinity = spec.get("affinity") or {}
    needs, ports = needs_of(pod, use_status=False), ports_of(spec)
    relational = bool(
        affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints")
    )
    selection = (spec.get("nodeSelector"), affinity.get("nodeAffinity"), spec.get("nodeName"))
    selector = _encode(selection) if selection != _ANYWHERE else _ANYWHERE_KEY
    told = (
        selector,
        needs.told,
        spec.get("tolerations"),
        ports,
        _identity(namespace, labels, spec, relational, cared_for),
        family.told if family is not None else None,
        refused,
    )
    key = _encode(told)
    return known(key) or Shape(
        key,
        namespace,
        labels,
        spec,
        needs,
        ports,
        terms_of(spec, namespace, labels) if relational else Terms(),
        spreads_of(spec, namespace, labels) if relational else (),
        spec.get("tolerations") or [],
        selector,
        family.spreads if family is not None else (),
        refused,
    )


def _identity(
    namespace: str, labels: Mapping[str, str], spec: Object, relational: bool, cared_for: frozenset[str] | None
) -> object:
    if relational:
        return namespace, labels, spec.get("affinity"), spec.get("topologySpreadConstraints")
    if cared_for is None:
        return None
    return namespace, sorted((key, value) for key, value in labels.items() if key in cared_for)


def finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
