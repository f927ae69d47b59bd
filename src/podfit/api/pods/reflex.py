"""The memory reflex in the API: an annotation that enables it, and a condition for usage near a limit.

The node writes the condition; the autoscaler's updater reads it and responds with a resize.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANNOTATION, MEMORY = "podfit.dev/reflex", "memory"
"""On a pod, or on an autoscaler for all of its pods: `podfit.dev/reflex: "memory"`."""
CONDITION = "podfit.dev/MemoryNearLimit"
NEAR, NOT_RAISED, LEAK, CALM = "NearLimit", "LimitNotRaised", "LeakSuspected", "BelowThreshold"
SHARE = 0.9
"""The fraction of its limit above which a container's usage counts as near it."""
_WORDS = re.compile(r"^container (\S+) uses (\d+) of (\d+) bytes")


@dataclass(frozen=True, slots=True)
class Near:
    """A container and its memory, in bytes."""

    container: str
    used: int
    limit: int

    @property
    def words(self) -> str:
        return f"container {self.container} uses {self.used} of {self.limit} bytes"


def threshold(limit: int) -> int:
    return int(limit * SHARE)


def asked_for(holder: Mapping[str, Any]) -> bool:
    """Whether the annotations of a pod or an autoscaler enable the memory reflex."""
    notes = (holder.get("metadata") or {}).get("annotations") or {}
    return MEMORY in [word.strip() for word in str(notes.get(ANNOTATION) or "").split(",")]


def near_of(pod: Mapping[str, Any]) -> Near | None:
    """The containers in the pod's condition; None if no container is near its limit."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == CONDITION and one.get("status") == "True":
            found = _WORDS.match(str(one.get("message") or ""))
            return Near(found[1], int(found[2]), int(found[3])) if found else None
    return None
