"""A pod's status for API servers before 1.33: `status.resize` instead of conditions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.resize.conditions import DEFERRED, IN_PROGRESS, IN_PROGRESS_WORD, PENDING
from podfit.api.resize.words import accepted

_NEWER = ("observedGeneration", "allocatedResources", "resources")
"""Fields of the pod's status that these servers do not have. The latter two are also fields of containers, which they
do have."""
_RESIZE = (PENDING, IN_PROGRESS)


def known(status: Mapping[str, Any]) -> Object:
    """The status without the fields and conditions that API servers before 1.33 do not have."""
    kept = {key: value for key, value in status.items() if key not in _NEWER}
    if "conditions" in kept:
        kept["conditions"] = [
            _plain(condition) for condition in kept["conditions"] if condition.get("type") not in _RESIZE
        ]
    return kept


def in_words(status: Mapping[str, Any], before: Mapping[str, Any], undecided: bool) -> Object:
    """The status to write, with `status.resize` in place of conditions. `undecided` keeps the existing value of
    `status.resize`."""
    made = known(status)
    made["resize"] = before.get("resize") if undecided else _word(status)
    return made


def _word(status: Mapping[str, Any]) -> str | None:
    found = {
        condition["type"]: condition
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }
    if PENDING in found:
        return str(found[PENDING].get("reason") or DEFERRED)
    return IN_PROGRESS_WORD if IN_PROGRESS in found else None


def _plain(condition: Object) -> Object:
    return {key: value for key, value in condition.items() if key != "observedGeneration"}


def between(pod: Object, status: Object, now: str) -> Object | None:
    """The intermediate status in which a waiting resize is accepted, if `status` already reports it as complete."""
    before = pod.get("status") or {}
    if before.get("resize") in (None, "", IN_PROGRESS_WORD):
        return None
    found = accepted({**pod, "status": status}, {**pod, "status": known(before)}, now)
    return None if found is None else {**known(found["status"]), "resize": IN_PROGRESS_WORD}
