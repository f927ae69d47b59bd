"""How many nodes of a zone may be lost before it is rather the network that is at fault. Pure.

Pods of a lost node are evicted so that others take over. Where no node answers, or most of a small zone's do not, that
would only end what may be running well: then nobody is evicted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from podfit.api.status import Object

EVICT, HOLD, NEVER = "evict", "hold", "never"
"""Evict; evict nobody more; evict nobody, and let go whom we meant to."""
_UNHEALTHY_SHARE, _FEW, _LARGE = 0.55, 2, 50


def zone_of(node: Object) -> tuple[str, str]:
    labels = node["metadata"].get("labels") or {}
    return labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")


def is_ready(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def decide(zone: tuple[str, str], nodes: Iterable[Object]) -> str:
    """What to do about a lost node of the zone, seeing all nodes there are."""
    sizes: Counter[tuple[str, str]] = Counter()
    lost: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        sizes[zone_of(node)] += 1
        lost[zone_of(node)] += not is_ready(node)
    if lost.total() == sizes.total():
        return NEVER
    size, gone = sizes[zone], lost[zone]
    partly = gone < size and gone > _FEW and gone / size >= _UNHEALTHY_SHARE
    return HOLD if partly and size <= _LARGE else EVICT
