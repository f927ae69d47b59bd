"""The free capacity of nodes and quotas, updated with every event, so that a single pod needs no full recount."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import requests_key, same_requests
from podfit.api.quantity import Quantity
from podfit.client import Cache
from podfit.client.cache import Key, key_of
from podfit.kit.memo import Memo
from podfit.vpa.model.fitting.limitranges import NamespaceBounds
from podfit.vpa.model.fitting.squeeze import Fitted, fitted
from podfit.vpa.model.objects.pods import condition, controller_of
from podfit.vpa.model.objects.policy import RESOURCES
from podfit.vpa.model.room import DIMENSIONS, Claim, NodeRoom, RoomLedger, amount, amounts_of
from podfit.vpa.observe.quotas import Quotas, counted_by_quota, growth

Amounts = Mapping[str, int]
SUCCESSOR_S = 600.0
"""How long a successor is expected. A controller that was scaled down creates none."""
UNSCHEDULED = "spec.nodeName=,status.phase=Pending"
SCHEDULED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


ReplicasOf = Callable[[str, str, str], int | None]
"""The desired number of pods of a controller (namespace, kind, name): 0 if it is gone; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class CountedPod:
    node: str
    requested: Amounts
    leaving: bool
    fixed: bool
    pod: Object
    """The pod as last delivered by the watch, or as in a response."""


@dataclass(frozen=True, slots=True)
class Successor:
    """A pod that its controller will create, because its predecessor was evicted."""

    claim: Claim
    controller: tuple[str, str, str]
    evicted: Object
    at: float
    known: frozenset[str]
    """The UIDs of pods that existed before: clocks of different machines may differ."""
    counted: Amounts
    """The amounts that a quota counts for its new size, by quota names."""
    growth: Amounts

    @property
    def key(self) -> tuple[str, str]:
        return "successor", self.evicted["metadata"].get("uid", "")


class Headroom:
    def __init__(self, nodes: Cache, pods: Cache, quotas: Cache, waiting: Cache | None = None) -> None:
        """`waiting` has the pods without a node."""
        self._nodes, self._pods, self._waiting = nodes, pods, waiting
        self.quotas = Quotas(quotas)
        self._counted: dict[Key, CountedPod] = {}
        self._books: dict[str, NodeRoom] = {}
        """The account of each node, including nodes that are not in the cache yet although pods run on them."""
        self._rooms: dict[str, NodeRoom] = {}
        self.ledger = RoomLedger(self._rooms)
        self.successors: list[Successor] = []
        self._unplaced: frozenset[Key] = frozenset()
        """Successors that were created and have no node yet."""
        self._known: frozenset[str] | None = None

    def start(self) -> None:
        """Subscribes to the caches; they must be synced."""
        self._nodes.subscribe(self._on_node)
        self._pods.subscribe(self._on_pod)

    # --- current state

    def _on_node(self, before: Object | None, after: Object | None) -> None:
        if after is None:
            if before is not None:
                self._rooms.pop(before["metadata"]["name"], None)
            return
        book = self._book(after["metadata"]["name"])
        stated = (after.get("status") or {}).get("allocatable") or {}
        if not book.allocatable or before is None or stated != (before.get("status") or {}).get("allocatable"):
            book.allocatable = {
                name: amount(name, Quantity.parse(stated[name])) for name in DIMENSIONS if name in stated
            }
        book.node = after
        self._rooms[book.name] = book

    def _book(self, name: str) -> NodeRoom:
        found = self._books.get(name)
        if found is None:
            found = self._books[name] = NodeRoom({"metadata": {"name": name}}, {})
        return found

    def _on_pod(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self.count(after)
        elif before is not None:
            self._discount(key_of(before))

    def count(self, pod: Object) -> None:
        """Counts a pod as in a response of the API server, before the watch delivers it."""
        key = key_of(pod)
        known = self._counted.get(key)
        node = (pod.get("spec") or {}).get("nodeName") or ""
        leaving = bool(pod["metadata"].get("deletionTimestamp"))
        if known is not None:
            # An eviction that was sent is recorded here before the watch delivers it.
            leaving |= known.leaving and pod["metadata"].get("uid") == known.pod["metadata"].get("uid")
            if known.node == node and known.leaving == leaving and same_requests(known.pod, pod):
                self._counted[key] = CountedPod(node, known.requested, leaving, known.fixed, pod)
                return
        self._discount(key)
        self._count(key, CountedPod(node, _requested(pod), leaving, _is_fixed(pod), pod))

    def _count(self, key: Key, made: CountedPod, times: int = 1) -> None:
        self._counted[key] = made
        book = self._book(made.node)
        for resource in DIMENSIONS:
            book.used[resource] += times * made.requested[resource]
            if made.leaving:
                book.leaving[resource] += times * made.requested[resource]
            if made.fixed:
                book.fixed[resource] += times * made.requested[resource]

    def _discount(self, key: Key) -> None:
        known = self._counted.get(key)
        if known is not None:
            self._count(key, known, -1)
            del self._counted[key]

    def leave(self, pod: Object, leaving: bool = True) -> None:
        """Records that the pod is being evicted, before the watch delivers it; `leaving=False` if the eviction
        failed."""
        key = key_of(pod)
        known = self._counted.get(key)
        if known is not None and known.leaving != leaving:
            self._discount(key)
            self._count(key, CountedPod(known.node, known.requested, leaving, known.fixed, known.pod))

    def requested_by(self, pod: Object) -> dict[str, int]:
        counted = self._counted.get(key_of(pod))
        return dict(counted.requested) if counted is not None else dict.fromkeys(DIMENSIONS, 0)

    def node_left(self, pod: Any, growth: Callable[[], Amounts]) -> tuple[str, dict[str, int]]:
        """The pod's node, for messages, and its free capacity for a resize. `growth` is the requested growth, by quota
        names. Places that are reserved for successors without a node are not free."""
        name = (pod.get("spec") or {}).get("nodeName") or ""
        words, room = f"node {name}", self._rooms.get(name)
        if room is None:
            return words, {}
        more = growth() if self.ledger.claimed["pods"] else {}
        wanted = {resource: max(0, more.get(f"requests.{resource}", 0)) for resource in RESOURCES}
        safe = self.ledger.growth_left(name, wanted)
        left = {}
        for resource in RESOURCES:
            number = room.left(resource)
            if safe[resource] < wanted[resource]:
                number = safe[resource] if number is None else min(number, safe[resource])
            if number is not None:
                left[resource] = number
                if number < wanted[resource] <= room.allocatable.get(resource, 0) - room.used[resource]:
                    words = f"node {name}, less what pods without a node need,"
        return words, left

    def reserve(self, pod: Any, growth: Amounts, times: int = 1) -> None:
        """Reserves capacity for a resize that was sent and has not been answered yet; `times=-1` releases it."""
        book = self._book((pod.get("spec") or {}).get("nodeName") or "")
        for resource in RESOURCES:
            book.used[resource] += times * max(0, growth.get(f"requests.{resource}", 0))
        self.quotas.take(pod["metadata"].get("namespace", ""), growth, times)

    # --- pods that need a place

    def begin(self, now: float, replicas_of: ReplicasOf | None = None) -> list[tuple[Successor, Object]]:
        """Starts a pass. Returns the successors that were created since, with their pods."""
        self.quotas.begin()
        self._known = None
        come = self._arrived()
        arrived = {successor.key for successor, _ in come}
        self.successors = [
            expected for expected in self.successors if expected.key not in arrived and now - expected.at < SUCCESSOR_S
        ]
        if self.successors and replicas_of is not None:
            self._drop_unwanted(replicas_of)
        claims: dict[Any, Claim] = {key_of(pod): claim_of(pod) for pod in self._waiting or () if wants_place(pod)}
        for successor in self.successors:
            claims[successor.key] = successor.claim
            still = key_of(successor.evicted) in self._counted
            self.quotas.take(successor.controller[0], successor.growth if still else successor.counted)
        self._unplaced = frozenset(key for key in (*self._unplaced, *(key_of(pod) for _, pod in come)) if key in claims)
        self.ledger.begin(claims, (*self._unplaced, *(successor.key for successor in self.successors)))
        return come

    def _arrived(self) -> list[tuple[Successor, Object]]:
        if not self.successors:
            return []
        expected = {awaited.controller for awaited in self.successors}
        made: dict[tuple[str, str, str], list[Object]] = {}
        for pod in self._all():
            controller = controller_key(pod)
            if controller in expected:
                made.setdefault(controller, []).append(pod)
        found = []
        for successor in self.successors:
            pods = made.get(successor.controller, [])
            new = next((pod for pod in pods if pod["metadata"].get("uid") not in successor.known), None)
            if new is not None:
                found.append((successor, new))
                pods.remove(new)
        return found

    def _drop_unwanted(self, replicas_of: ReplicasOf) -> None:
        """Drops successors that no controller will create, because it is gone or was scaled down."""
        alive: dict[tuple[str, str, str], int] = {}
        for pod in self._all():
            counted = self._counted.get(key_of(pod))
            if not pod["metadata"].get("deletionTimestamp") and not (counted is not None and counted.leaving):
                controller = controller_key(pod)
                alive[controller] = alive.get(controller, 0) + 1
        kept: list[Successor] = []
        for successor in self.successors:
            wanted = replicas_of(*successor.controller)
            held = alive.get(successor.controller, 0)
            if wanted is None or held < wanted:
                alive[successor.controller] = held + 1
                kept.append(successor)
        self.successors = kept

    def _all(self) -> Iterator[Object]:
        yield from self._pods
        yield from self._waiting or ()

    def place(self, vpa: Mapping[str, Any], pod: Any, bounds: NamespaceBounds) -> Fitted:
        """The size at which a running pod's successor would fit."""
        gives_back, home = self.requested_by(pod), (pod.get("spec") or {}).get("nodeName") or ""
        before = counted_by_quota(pod)
        return fitted(vpa, pod, bounds, self.ledger, self._holds(pod, home, gives_back, before))

    def size_new(self, vpa: Mapping[str, Any], pod: Any, bounds: NamespaceBounds) -> Fitted:
        """The size at which a new pod fits."""
        return fitted(vpa, pod, bounds, self.ledger, self._holds(pod, "", None, {}))

    def has_room(self, pod: Any, sized: Mapping[str, Any]) -> bool:
        """Whether a new pod of that size fits a node and the quota."""
        return self._holds(pod, "", None, {})(sized)

    def _holds(
        self, pod: Object, home: str, gives_back: Amounts | None, before: Amounts
    ) -> Callable[[Mapping[str, Any]], bool]:
        namespace, spec = pod["metadata"].get("namespace", ""), pod.get("spec") or {}

        def holds(sized: Mapping[str, Any]) -> bool:
            if self.quotas.left(namespace) and self.quotas.missing(namespace, growth(before, counted_by_quota(sized))):
                return False
            return self.ledger.has_place(Claim(spec, amounts_of(sized), home), gives_back)

        return holds

    def guarantee(self, pod: Any, sized: Mapping[str, Any], now: float) -> Successor:
        """Guarantees a place for the successor of a pod that is about to be evicted."""
        home = (pod.get("spec") or {}).get("nodeName") or ""
        claim = Claim(pod.get("spec") or {}, amounts_of(sized), home)
        counted = counted_by_quota(sized)
        if self._known is None:
            self._known = frozenset(obj["metadata"].get("uid", "") for obj in self._all())
        more = growth(counted_by_quota(pod), counted)
        made = Successor(claim, controller_key(pod), pod, now, self._known, counted, more)
        self.leave(pod)
        self.ledger.guarantee(made.key, claim)
        self.quotas.take(made.controller[0], made.growth)
        self.successors.append(made)
        return made

    def withdraw(self, made: Successor) -> None:
        """Removes a successor after its predecessor's eviction failed."""
        self.successors.remove(made)
        self.quotas.take(made.controller[0], made.growth, -1)
        self.ledger.remove(made.key)
        self.leave(made.evicted, False)


def wants_place(pod: Object) -> bool:
    """Whether the scheduler will look for a node for the pod."""
    return not (pod.get("spec") or {}).get("schedulingGates") and not pod["metadata"].get("deletionTimestamp")


def claim_of(pod: Object) -> Claim:
    refused = (condition(pod, "PodScheduled") or {}).get("reason") == "Unschedulable"
    return Claim(pod.get("spec") or {}, _requested(pod), refused=refused)


def controller_key(pod: Mapping[str, Any]) -> tuple[str, str, str]:
    owner = controller_of(pod) or {}
    return pod["metadata"].get("namespace", ""), owner.get("kind") or "", owner.get("name") or ""


def _is_fixed(pod: Object) -> bool:
    return (controller_of(pod) or {}).get("kind") in ("DaemonSet", "Node")


_memo = Memo[bytes, Amounts](4096)
"""Cached amounts by `requests_key`, which contains everything that they depend on."""


def _requested(pod: Object) -> Amounts:
    """The resources that the pod reserves on its node, cached because most pods, and most changes of a pod, have the
    same amounts."""
    reported = requests_key(pod, use_status=True)
    found = _memo.get(reported)
    return found if found is not None else _memo.keep(reported, amounts_of(pod, use_status=True))
