"""One account of free capacity for all autoscalers: what nodes have left, and which pods need a place on one of them.

A claim is a pod without a node: either it waits for the scheduler, or it is the successor of a pod that was just
evicted. The scheduler chooses the node of a claim, so a place counts only if no placement of the other claims takes it.
A successor's place is guaranteed: later evictions and resizes in place must not take it. Pure. The updater consults it
before it evicts or resizes, admission before it sizes a new pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podfit.api.objects import ObjectView
from podfit.api.pods.placement import node_matches, untolerated
from podfit.api.pods.resources import pod_requests
from podfit.api.quantity import Quantity

Amounts = Mapping[str, int]
"""cpu in millicores, memory in bytes, number of pods."""
DIMENSIONS = ("cpu", "memory", "pods")
_KEEP_OUT = ("NoSchedule", "NoExecute")


def amount(resource: str, quantity: Quantity) -> int:
    return quantity.milli if resource == "cpu" else quantity.value


def as_quantity(resource: str, number: int) -> Quantity:
    return Quantity.of_milli(number) if resource == "cpu" else Quantity.of_units(number)


def shown(resource: str, number: int) -> str:
    """An amount with its unit, for messages: 775m, 1.2Gi."""
    if resource == "cpu":
        return f"{number}m"
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if abs(number) >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number} bytes"


def shown_all(amounts: Amounts) -> str:
    return " and ".join(f"{shown(name, amounts.get(name, 0))} of {name}" for name in ("cpu", "memory"))


def amounts_of(pod: ObjectView, use_status: bool = False) -> dict[str, int]:
    """The resources that the pod takes from a node."""
    requested = pod_requests(pod, use_status=use_status)
    taken = {name: amount(name, requested[name]) if name in requested else 0 for name in ("cpu", "memory")}
    return {**taken, "pods": 1}


@dataclass(slots=True)
class NodeRoom:
    """The account of a node. A resource that `allocatable` does not name is unlimited."""

    node: ObjectView
    allocatable: Amounts
    used: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIMENSIONS, 0))
    leaving: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIMENSIONS, 0))
    """The part of `used` that belongs to terminating pods."""
    fixed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIMENSIONS, 0))
    """The part of `used` that belongs to pods on every such node: those of DaemonSets and static ones."""
    reserved: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DIMENSIONS, 0))
    """The capacity that pending claims are likely to use; resizes in place must not use it."""

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    def takes(self, spec: ObjectView) -> bool:
        """Whether taints, selectors and affinity allow such a pod on the node."""
        own = self.node.get("spec") or {}
        if own.get("unschedulable") or not node_matches(spec, self.node):  # type: ignore[arg-type]
            return False
        taints = own.get("taints")
        return not taints or untolerated(taints, spec.get("tolerations") or [], _KEEP_OUT) is None

    def left(self, resource: str) -> int | None:
        """The free capacity for a resize in place; None if it is unlimited."""
        most = self.allocatable.get(resource)
        return None if most is None else most - self.used[resource] - self.reserved[resource]

    def holds(self, needed: Amounts, more: Amounts | None = None, reserving: bool = False) -> bool:
        """Whether a pod of that size fits once terminating pods are gone; `more` is additional capacity."""
        for resource, most in self.allocatable.items():
            room = most - self.used[resource] + self.leaving[resource] + (more or {}).get(resource, 0)
            if needed.get(resource, 0) > room - (self.reserved[resource] if reserving else 0):
                return False
        return True

    def reserve(self, claim: Claim) -> bool:
        """Reserves capacity for a claim. False if it does not fit, or if the pod waits for something other than this
        capacity."""
        if not self.holds(claim.needed, reserving=True):
            return False
        if claim.refused and self._has_now(claim.needed):
            return False
        _increase(self.reserved, claim.needed)
        return True

    def _has_now(self, needed: Amounts) -> bool:
        return all(needed.get(name, 0) <= most - self.used[name] for name, most in self.allocatable.items())

    def slack(self, resource: str, needed: Amounts, more: Amounts | None = None) -> int | None:
        """The capacity that would be left beside such a pod; None if it is unlimited."""
        most = self.allocatable.get(resource)
        if most is None:
            return None
        room = most - self.used[resource] + self.leaving[resource] + (more or {}).get(resource, 0)
        return room - needed.get(resource, 0)

    def largest(self) -> dict[str, int]:
        """The largest pod that fits on this node when only pods that every node has are running."""
        return {resource: most - self.fixed[resource] for resource, most in self.allocatable.items()}


class Claim(NamedTuple):
    spec: ObjectView
    """The pod's scheduling constraints."""
    needed: Amounts
    home: str = ""
    """The node of its predecessor."""
    refused: bool = False
    """Whether the scheduler found no node. If the pod fits one nonetheless, it waits for something other than
    capacity."""


class RoomLedger:
    def __init__(self, nodes: Mapping[str, NodeRoom]) -> None:
        """`nodes` may change during the account's lifetime, as pods come and go. Without any node, everything fits."""
        self.nodes = nodes
        self.claimed: dict[str, int] = dict.fromkeys(DIMENSIONS, 0)
        """The total capacity that claims may use, wherever the scheduler puts them."""
        self.stuck: dict[Hashable, Claim] = {}
        """Pending pods that fit no node; they will use capacity that becomes free."""
        self._claims: dict[Hashable, tuple[Claim, NodeRoom | None]] = {}
        """All claims, each with the node on which capacity is reserved for it."""
        self._guaranteed: dict[Hashable, tuple[Any, ...]] = {}
        """The shapes of claims whose place is guaranteed."""
        self._order: list[NodeRoom] = []
        self._turn = 0

    def begin(self, claims: Mapping[Hashable, Claim], guaranteed: Iterable[Hashable] = ()) -> None:
        """Starts a pass. `claims` are the pods that need nodes; the places of `guaranteed` are guaranteed."""
        self.claimed = dict.fromkeys(DIMENSIONS, 0)
        self.stuck, self._claims, self._guaranteed = {}, {}, {}
        self._order, self._turn = list(self.nodes.values()), 0
        for node in self._order:
            node.reserved = dict.fromkeys(DIMENSIONS, 0)
        hopeless: set[tuple[Any, ...]] = set()
        for key, claim in claims.items():
            shape = _shape(claim)
            if shape in hopeless:
                self.stuck[key] = claim
            elif not self.add(key, claim):
                hopeless.add(shape)
        for key in guaranteed:
            if key in self._claims:
                self._guaranteed[key] = _shape(claims[key])

    def add(self, key: Hashable, claim: Claim) -> bool:
        """Adds a claim. False if it fits no node, even without the other claims."""
        self.remove(key)
        reserved: NodeRoom | None = None
        fits = False
        for node in self._candidates(claim.home):
            if node.holds(claim.needed) and node.takes(claim.spec):
                fits = True
                if node.reserve(claim):
                    reserved = node
                    break
        if not fits:
            self.stuck[key] = claim
            return False
        self._claims[key] = claim, reserved
        _increase(self.claimed, claim.needed)
        return True

    def _candidates(self, home: str) -> Iterator[NodeRoom]:
        """The home node first, then the others, starting with the one that the last claim fitted on."""
        if home in self.nodes:
            yield self.nodes[home]
        if len(self._order) != len(self.nodes):
            self._order, self._turn = list(self.nodes.values()), 0
        for _ in range(len(self._order)):
            yield self._order[self._turn]
            self._turn = (self._turn + 1) % len(self._order)

    def remove(self, key: Hashable) -> None:
        """Removes a claim: the pod was scheduled, or will not be created."""
        self.stuck.pop(key, None)
        self._guaranteed.pop(key, None)
        claim, node = self._claims.pop(key, (None, None))
        if claim is not None:
            _increase(self.claimed, claim.needed, -1)
        if claim is not None and node is not None:
            _increase(node.reserved, claim.needed, -1)

    def guarantee(self, key: Hashable, claim: Claim) -> None:
        """Adds a successor, and guarantees its place if it has one. Its predecessor counts as leaving by now, so
        pending pods that fitted no node may fit there."""
        home = self.nodes.get(claim.home)
        for other, waiting in list(self.stuck.items()):
            if home is not None and home.holds(waiting.needed) and home.takes(waiting.spec):
                self.add(other, waiting)
        self.add(key, claim)
        if key in self._claims:
            self._guaranteed[key] = _shape(claim)

    def has_place(self, claim: Claim, gives_back: Amounts | None = None) -> bool:
        """Whether the pod fits a node wherever the scheduler puts the other claims, and every guaranteed place remains.

        `gives_back` is the capacity that its predecessor frees on the home node.
        """
        if not self.nodes:
            return True
        rivals = self._rivals(claim.home, gives_back)
        if not self._secure(claim, rivals, claim.home, gives_back):
            return False
        if not self._guaranteed:
            return True
        rivals = dict(rivals)
        _increase(rivals, claim.needed)
        return self._guarantees_hold(rivals, claim.home, gives_back, claim)

    def growth_left(self, name: str, wanted: Amounts) -> dict[str, int]:
        """The part of the requested growth of a pod on this node that leaves every guaranteed place free."""
        allowed = {resource: max(0, wanted.get(resource, 0)) for resource in DIMENSIONS[:2]}
        node = self.nodes.get(name)
        if node is None or self._kept_beside(node, allowed):
            return allowed
        found = dict.fromkeys(allowed, 0)
        for resource, most in allowed.items():
            low, high = 0, most + 1
            while high - low > 1:
                found[resource] = (low + high) // 2
                if self._kept_beside(node, found):
                    low = found[resource]
                else:
                    high = found[resource]
            found[resource] = low
        return found

    def _kept_beside(self, node: NodeRoom, growth: Amounts) -> bool:
        return not self._guaranteed or self._guarantees_hold(
            self.claimed, node.name, {resource: -more for resource, more in growth.items()}
        )

    def _guarantees_hold(self, total: Amounts, home: str, more: Amounts | None, new: Claim | None = None) -> bool:
        """Whether guaranteed places remain if claims add up to `total` and a node has more or less capacity. Guarantees
        that were broken before are ignored."""
        distinct = {shape: self._claims[key][0] for key, shape in self._guaranteed.items()}
        return all(
            self._secure(claim, _less(total, claim.needed), home, more)
            or not self._secure(claim, _less(self.claimed, claim.needed))
            or (new is not None and not self._meet(claim, new))
            for claim in distinct.values()
        )

    def _meet(self, one: Claim, other: Claim) -> bool:
        """Whether both pods could run on a common node."""
        return any(node.takes(one.spec) and node.takes(other.spec) for node in self.nodes.values())

    def _secure(self, claim: Claim, rivals: Amounts, home: str = "", gives_back: Amounts | None = None) -> bool:
        """Whether other claims cannot keep a pod off every node.

        To keep it off a node, they have to use up the node's remaining capacity of at least one resource. They cannot
        do so on all nodes if their claims are too small for that in every resource.
        """
        counted = [resource for resource in DIMENSIONS if rivals[resource] > 0]
        reach = 0.0
        for name, node in self.nodes.items():
            more = gives_back if name == home else None
            if not node.holds(claim.needed, more) or not node.takes(claim.spec):
                continue
            slacks = [(rivals[rival], node.slack(rival, claim.needed, more)) for rival in counted]
            if all(slack is None or slack >= rival for rival, slack in slacks):
                return True
            reach += min((slack + 1) / rival for rival, slack in slacks if slack is not None)
            if reach > len(counted):
                return True
        return False

    def _rivals(self, home: str, gives_back: Amounts | None) -> dict[str, int]:
        """The other claims, and pending pods that would use the freed capacity."""
        node = self.nodes.get(home)
        if node is None or not self.stuck:
            return self.claimed
        total = dict(self.claimed)
        for claim in self.stuck.values():
            if node.holds(claim.needed, gives_back) and node.takes(claim.spec):
                _increase(total, claim.needed)
        return total

    def largest_for(self, spec: ObjectView, needed: Amounts, fixed: bool = False) -> tuple[str, dict[str, int]] | None:
        """The node that could hold most of such a pod if it were empty, and how much of it; None if a node could hold
        all of it.

        A pod that every node has (`fixed`) need not leave capacity for pods of its kind.
        """
        best: tuple[float, str, dict[str, int]] | None = None
        for node in self.nodes.values():
            if not node.takes(spec):
                continue
            room = dict(node.allocatable) if fixed else node.largest()
            share = 1.0
            for resource, most in room.items():
                share *= min(1.0, max(0, most) / max(1, needed.get(resource, 0)))
            if share >= 1.0:
                return None
            if best is None or share > best[0]:
                best = share, node.name, room
        return best[1:] if best is not None else None


_CONSTRAINTS = ("nodeSelector", "affinity", "tolerations")
_ANYWHERE: ObjectView = {}


def constraints(spec: ObjectView) -> ObjectView:
    """The scheduling constraints of a pod's spec. They are kept after the pod itself is dropped."""
    return {name: spec[name] for name in _CONSTRAINTS if spec.get(name)} or _ANYWHERE


def _shape(claim: Claim) -> tuple[Any, ...]:
    """A cache key of everything that determines where a claim fits."""
    return (tuple(claim.needed.items()), *(str(claim.spec.get(name)) for name in _CONSTRAINTS))


def _less(total: Amounts, part: Amounts) -> dict[str, int]:
    return {resource: total[resource] - part.get(resource, 0) for resource in DIMENSIONS}


def _increase(total: dict[str, int], by: Amounts, times: int = 1) -> None:
    for resource in DIMENSIONS:
        total[resource] += times * by.get(resource, 0)
