"""The squeeze probe in the API: an annotation that enables it, and a condition and an annotation with its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from podfit.api.objects import Object
from podfit.api.pods.reflex import is_true

ANNOTATION, MEMORY = "podfit.dev/squeeze", "memory"
"""On an autoscaler for all of its pods, or on a pod: `podfit.dev/squeeze: "memory"`."""
CONDITION, FOUND = "podfit.dev/WorkingSet", "SqueezeProbe"
AMOUNTS = "podfit.dev/working-set"
"""On a pod with the condition: bytes by container, as JSON."""
_decoder = msgspec.json.Decoder(dict[str, int])


def result(found: Mapping[str, int], now: str) -> Object:
    """The change of the pod that reports bytes by container."""
    message = "; ".join(f"container {name} works with {amount} bytes" for name, amount in sorted(found.items()))
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": FOUND,
        "message": message,
        "lastTransitionTime": now,
    }
    notes = {AMOUNTS: msgspec.json.encode(found, order="sorted").decode()}
    return {"metadata": {"annotations": notes}, "status": {"conditions": [condition]}}


def asked_for(holder: Mapping[str, Any]) -> bool:
    notes = (holder.get("metadata") or {}).get("annotations") or {}
    return bool(notes.get(ANNOTATION) == MEMORY)


def found_in(pod: Mapping[str, Any]) -> dict[str, int]:
    """The result of the probe in bytes by container; empty if there is none yet."""
    text = ((pod.get("metadata") or {}).get("annotations") or {}).get(AMOUNTS)
    if not text or not is_true(pod, CONDITION):
        return {}
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return {}
