"""Decides whether pods of lost nodes are evicted, from the share of lost nodes in a zone. Pure.

Pods of a lost node are evicted so that others replace them. If no node responds, or most nodes of a small zone do not,
the network is the more likely cause, and eviction would only kill pods that may be running well: then no pod is
evicted. Nodes are counted incrementally, so that a thousand nodes becoming ready do not cause a thousand full counts.
"""

from __future__ import annotations

from collections import Counter

from podfit.api.objects import Object

EVICT, HOLD, NEVER = "evict", "hold", "never"
"""The reactions: evict pods; evict no further pods; evict none, and cancel pending evictions."""
_UNHEALTHY_SHARE, _FEW, _LARGE = 0.55, 2, 50
Zone = tuple[str, str]
"""Region and zone."""


def zone_of(node: Object) -> Zone:
    labels = node["metadata"].get("labels") or {}
    return labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")


def is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


class Zones:
    """All nodes, by zone."""

    def __init__(self) -> None:
        self._where: dict[str, Zone] = {}
        self._sizes: Counter[Zone] = Counter()
        self._lost: dict[Zone, dict[str, None]] = {}
        """Names, in the order in which they were lost; no entry for zones without lost nodes."""
        self._gone = 0
        self._policies: dict[Zone, str] = {}

    def put(self, name: str, node: Object | None) -> None:
        """The node's current state; None: it was deleted."""
        before = self._where.pop(name, None)
        if before is not None:
            self._sizes[before] -= 1
            self._found(name, before)
        if node is not None:
            zone = self._where[name] = zone_of(node)
            self._sizes[zone] += 1
            if not is_ready(node):
                self._lost.setdefault(zone, {})[name] = None
                self._gone += 1

    def _found(self, name: str, zone: Zone) -> None:
        lost = self._lost.get(zone, {})
        if name in lost:
            del lost[name]
            self._gone -= 1
            if not lost:
                del self._lost[zone]

    def decide(self, zone: Zone) -> str:
        """The reaction to a lost node of the zone."""
        if self._gone == len(self._where):
            return NEVER
        size, gone = self._sizes[zone], len(self._lost.get(zone, ()))
        partly = gone < size and gone > _FEW and gone / size >= _UNHEALTHY_SHARE
        return HOLD if partly and size <= _LARGE else EVICT

    def changed_nodes(self) -> list[str]:
        """The lost nodes whose decision has changed since the last call."""
        policies = {zone: self.decide(zone) for zone in self._lost}
        before, self._policies = self._policies, policies
        return [name for zone, policy in policies.items() if before.get(zone) != policy for name in self._lost[zone]]
