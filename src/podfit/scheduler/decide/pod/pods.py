"""The scheduler's model of a pod: the resources it takes on a node, and its requirements.

`BoundPod` is a pod on a node; it counts the maximum of desired, allocated and actual. `PodShape` has the parts of a
pending pod that affect scheduling, so that pods of one shape share everything computed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from podfit.api.objects import Object
from podfit.api.pods.host_ports import Port, host_ports
from podfit.api.pods.resources import same_requests
from podfit.kit.memo import Memo
from podfit.kit.rfc3339 import parse_rfc3339
from podfit.scheduler.decide.pod.needs import Needs, needs_of
from podfit.scheduler.decide.pod.owners import SpreadGroup
from podfit.scheduler.decide.pod.terms import NO_TERMS, Spread, Terms, spreads_of, terms_of

PODS = "pods"

Key = tuple[str, str]
_encode = msgspec.json.encode
_ANYWHERE = (None, None, None)
_ANYWHERE_KEY = _encode(_ANYWHERE)


@dataclass(slots=True, eq=False)
class BoundPod:
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
    """Amounts by column of the snapshot that contains the pod."""
    row: int = -1

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def bound(self) -> bool:
        """Whether the pod itself names its node; otherwise it was only assumed here."""
        return bool((self.pod.get("spec") or {}).get("nodeName"))

    def still(self, pod: Object) -> bool:
        """Whether `resident` would return the same for the pod, except for its amounts and start time. The rest of a
        pod that has its node never changes."""
        meta = pod["metadata"]
        return (
            self.uid == (meta.get("uid") or "")
            and self.node == ((pod.get("spec") or {}).get("nodeName") or "")
            and self.terminating == bool(meta.get("deletionTimestamp"))
            and self.labels == (meta.get("labels") or {})
            and (self.pod.get("spec") is pod.get("spec") or self.priority == priority_of(pod))
        )

    def seen(self, pod: Object) -> None:
        """The pod's current state."""
        if pod.get("status") is not self.pod.get("status") and _start_time(pod) != _start_time(self.pod):
            self.started = started_at(pod)
        self.pod = pod

    def other_needs(self, pod: Object) -> Needs | None:
        """The pod's current amounts; None if they did not change."""
        if same_requests(self.pod, pod):
            return None
        needs = needs_of(pod, use_status=True)
        return None if needs.key == self.needs.key else needs


@dataclass(slots=True, eq=False)
class PodShape:
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
    """Soft default constraints of a pod without its own; they rule nothing out."""
    refused: str = ""
    """The reason why no node can fit the pod, if any."""

    @property
    def relational(self) -> bool:
        """Whether its placement depends on other pods beyond their resources."""
        return bool(self.terms or self.spreads)


def pod_key(pod: Object) -> Key:
    meta = pod["metadata"]
    return meta.get("namespace") or "", meta["name"]


def priority_of(pod: Object) -> int:
    return int((pod.get("spec") or {}).get("priority") or 0)


_memo = Memo[bytes, Terms](65536)
"""By the encoded arguments of `terms_of`."""


def _terms(spec: Object, namespace: str, labels: Mapping[str, str]) -> Terms:
    affinity = spec.get("affinity")
    if not affinity or not (affinity.get("podAffinity") or affinity.get("podAntiAffinity")):
        return NO_TERMS
    key = _encode((affinity, namespace, labels))
    found = _memo.get(key)
    return found if found is not None else _memo.keep(key, terms_of(spec, namespace, labels))


def resident(pod: Object, node: str = "") -> BoundPod:
    """`node` places a pod that is not bound yet."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    labels = meta.get("labels") or {}
    return BoundPod(
        pod_key(pod),
        meta.get("uid") or "",
        node or spec.get("nodeName") or "",
        needs_of(pod, use_status=True),
        priority_of(pod),
        labels,
        host_ports(spec),
        _terms(spec, meta.get("namespace") or "", labels),
        started_at(pod),
        bool(meta.get("deletionTimestamp")),
        pod,
    )


def _start_time(pod: Object) -> str | None:
    return (pod.get("status") or {}).get("startTime")


def started_at(pod: Object) -> float:
    began = _start_time(pod)
    return parse_rfc3339(began) if began else float("inf")


def shape_of(
    pod: Object,
    selected_keys: frozenset[str] | None,
    known: Callable[[bytes], PodShape | None] = lambda key: None,
    family: SpreadGroup | None = None,
    refused: str = "",
) -> PodShape:
    """`selected_keys` are the label keys that terms of running pods select by (None: there are none): pods that differ
    only in other labels have the same shape. `family`: the group that the pod is spread among if it has no constraints
    of its own."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    namespace, labels = meta.get("namespace") or "", meta.get("labels") or {}
    affinity = spec.get("affinity") or {}
    needs, ports = needs_of(pod, use_status=False), host_ports(spec)
    relational = bool(
        affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints")
    )
    selection = (spec.get("nodeSelector"), affinity.get("nodeAffinity"), spec.get("nodeName"))
    selector = _encode(selection) if selection != _ANYWHERE else _ANYWHERE_KEY
    parts = (
        selector,
        needs.key,
        spec.get("tolerations"),
        ports,
        _identity(namespace, labels, spec, relational, selected_keys),
        family.key if family is not None else None,
        refused,
    )
    key = _encode(parts)
    return known(key) or PodShape(
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
    namespace: str, labels: Mapping[str, str], spec: Object, relational: bool, selected_keys: frozenset[str] | None
) -> object:
    if relational:
        return namespace, labels, spec.get("affinity"), spec.get("topologySpreadConstraints")
    if selected_keys is None:
        return None
    return namespace, sorted((key, value) for key, value in labels.items() if key in selected_keys)


def finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
