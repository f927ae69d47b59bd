"""The squeeze probe in the API: an annotation that enables it, and a condition with its result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ANNOTATION, MEMORY = "podfit.dev/squeeze", "memory"
"""On an autoscaler for all of its pods, or on a pod: `podfit.dev/squeeze: "memory"`."""
CONDITION, FOUND = "podfit.dev/WorkingSet", "SqueezeProbe"
_WORDS = re.compile(r"container (\S+) works with (\d+) bytes")


def words(found: Mapping[str, int]) -> str:
    return "; ".join(f"container {name} works with {amount} bytes" for name, amount in sorted(found.items()))


def asked_for(holder: Mapping[str, Any]) -> bool:
    notes = (holder.get("metadata") or {}).get("annotations") or {}
    return bool(notes.get(ANNOTATION) == MEMORY)


def found_in(pod: Mapping[str, Any]) -> dict[str, int]:
    """Bytes by container; empty if there is no result yet."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == CONDITION and one.get("status") == "True":
            return {name: int(amount) for name, amount in _WORDS.findall(str(one.get("message") or ""))}
    return {}
