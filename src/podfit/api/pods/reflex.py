"""The memory reflex in the API: an annotation that enables it, and a condition for usage near a limit.

The node writes the condition, and with it an annotation that contains its amounts. The autoscaler's updater reads them
and responds with a resize.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from podfit.api.objects import Object

ANNOTATION, MEMORY = "podfit.dev/reflex", "memory"
"""On a pod, or on an autoscaler for all of its pods: `podfit.dev/reflex: "memory"`."""
CONDITION, AMOUNTS = "podfit.dev/MemoryNearLimit", "podfit.dev/memory-near-limit"
"""The condition, and the annotation with `NearLimit` as JSON while the condition is True."""
NEAR, NOT_RAISED, LEAK, CALM = "NearLimit", "LimitNotRaised", "LeakSuspected", "BelowThreshold"
SHARE = 0.9
"""The fraction of its limit above which a container's usage counts as near it."""


class NearLimit(Struct, frozen=True):
    """A container and its memory, in bytes."""

    container: str
    used: int
    limit: int

    @property
    def words(self) -> str:
        return f"container {self.container} uses {mebibytes(self.used)} of {mebibytes(self.limit)}"


_decoder = msgspec.json.Decoder(NearLimit)


def amounts(near: NearLimit | None) -> Object:
    """Changes of the pod's annotations; None removes the amounts."""
    return {AMOUNTS: msgspec.json.encode(near).decode() if near is not None else None}


def mebibytes(count: int) -> str:
    """An amount for messages: `58.5Mi`."""
    return f"{count / (1 << 20):.1f}".removesuffix(".0") + "Mi"


def threshold(limit: int) -> int:
    return int(limit * SHARE)


def asked_for(holder: Mapping[str, Any]) -> bool:
    """Whether the annotations of a pod or an autoscaler enable the memory reflex."""
    notes = (holder.get("metadata") or {}).get("annotations") or {}
    return MEMORY in [word.strip() for word in str(notes.get(ANNOTATION) or "").split(",")]


def near_of(pod: Mapping[str, Any]) -> NearLimit | None:
    """The container that is near its limit according to the pod's node; None if there is none."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(AMOUNTS)
    if not text or not is_true(pod, CONDITION):
        return None
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None


def is_true(pod: Mapping[str, Any], condition: str) -> bool:
    listed = (pod.get("status") or {}).get("conditions") or ()
    return any(row.get("type") == condition and row.get("status") == "True" for row in listed)
