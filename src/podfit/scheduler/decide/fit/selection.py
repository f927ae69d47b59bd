"""The nodes that a pod's node selector and affinity allow: a mask for each distinct selector, updated row by row."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from podfit.api.objects import Object
from podfit.api.pods.placement import node_matches, required_terms
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.pod.pods import PodShape

Bools = NDArray[np.bool_]
_KEPT = 1024


def named_nodes(spec: Object) -> frozenset[str] | None:
    """The nodes that the required affinity lists by name, if every term does; None otherwise."""
    terms = required_terms(spec)
    if terms is None:
        return None
    found: set[str] = set()
    for term in terms:
        listed: set[str] | None = None
        for requirement in term.get("matchFields") or ():
            if requirement.get("key") == "metadata.name" and requirement.get("operator") == "In":
                values = set(requirement.get("values") or ())
                listed = values if listed is None else listed & values
        if listed is None:
            return None
        found |= listed
    return frozenset(found) if terms else None


class Selection:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._masks: OrderedDict[bytes, tuple[Bools, int]] = OrderedDict()

    def mask(self, shape: PodShape) -> Bools:
        """True if selector and affinity match (deleted rows: any value)."""
        snapshot = self._snapshot
        mask, position = self._masks.get(shape.selector_key, (None, 0))
        rows = snapshot.reshaped.since(position) if mask is not None else None
        if mask is None or rows is None or len(mask) != snapshot.capacity:
            mask = self._whole(shape)
        else:
            for row in rows:
                node = snapshot.nodes[row]
                mask[row] = node is not None and node_matches(shape.spec, node)
        self._masks[shape.selector_key] = (mask, snapshot.reshaped.position)
        self._masks.move_to_end(shape.selector_key)
        if len(self._masks) > _KEPT:
            self._masks.popitem(last=False)
        return mask

    def _whole(self, shape: PodShape) -> Bools:
        snapshot, spec = self._snapshot, shape.spec
        if not spec.get("nodeSelector") and required_terms(spec) is None:
            return np.ones(snapshot.capacity, np.bool_)
        mask = np.zeros(snapshot.capacity, np.bool_)
        names = named_nodes(spec)
        rows = (
            snapshot.rows.values()
            if names is None
            else [snapshot.rows[name] for name in names if name in snapshot.rows]
        )
        for row in rows:
            node = snapshot.nodes[row]
            mask[row] = node is not None and node_matches(spec, node)
        return mask
