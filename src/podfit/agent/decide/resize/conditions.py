"""The two resize conditions: how the differences between the states are reported, and when their times change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from podfit.api.objects import Object
from podfit.api.resize.conditions import ERROR, IN_PROGRESS, PENDING
from podfit.kit.rfc3339 import parse_rfc3339, rfc3339


class ResizeCondition(Struct, frozen=True):
    type: str
    generation: int
    since: float
    """The time at which the condition took its current reason."""
    reason: str = ""
    message: str = ""
    probed: float = 0.0
    """The time at which the message or generation last changed; 0 if they did not since `since`."""

    def to_json(self) -> Object:
        shown: Object = {
            "type": self.type,
            "observedGeneration": self.generation,
            "status": "True",
            "lastProbeTime": rfc3339(self.probed or self.since),
            "lastTransitionTime": rfc3339(self.since),
        }
        if self.reason:
            shown["reason"] = self.reason
        if self.message:
            shown["message"] = self.message
        return shown


class ResizeConditions(Struct, frozen=True):
    pending: ResizeCondition | None = None
    in_progress: ResizeCondition | None = None

    def to_json(self) -> list[Object]:
        return [condition.to_json() for condition in (self.pending, self.in_progress) if condition is not None]

    def refused(self, reason: str, message: str, generation: int, now: float) -> ResizeConditions:
        before = self.pending or ResizeCondition(PENDING, generation, now)
        return replace(self, pending=_found(before, generation, reason, message, now))

    def confirmed(self, before: int, generation: int) -> ResizeConditions:
        """Applies the verdict on generation `before` to the new generation of a spec that changed without its
        resources."""
        if self.pending is None or self.pending.generation != before or before == generation:
            return self
        return replace(self, pending=replace(self.pending, generation=generation))

    def without_pending(self) -> ResizeConditions:
        return ResizeConditions(None, self.in_progress) if self.pending is not None else self

    def granted(self, generation: int, now: float) -> ResizeConditions:
        return ResizeConditions(None, ResizeCondition(IN_PROGRESS, generation, now))

    def failed(self, message: str, generation: int, now: float) -> ResizeConditions:
        before = self.in_progress or ResizeCondition(IN_PROGRESS, generation, now)
        return replace(self, in_progress=_found(before, before.generation, ERROR, message, now))

    def under_way(self, generation: int, now: float) -> ResizeConditions:
        """The conditions of a resize in progress without an error; keeps its times."""
        before = self.in_progress
        if before is None:
            return replace(self, in_progress=ResizeCondition(IN_PROGRESS, generation, now))
        if before.reason:
            return replace(self, in_progress=_found(before, before.generation, "", "", now))
        return self

    def completed(self) -> ResizeConditions:
        return ResizeConditions(self.pending, None) if self.in_progress is not None else self


def _found(before: ResizeCondition, generation: int, reason: str, message: str, now: float) -> ResizeCondition:
    """The condition as observed now: a changed reason counts as a transition; a changed message or generation does
    not."""
    if before.reason != reason:
        return ResizeCondition(before.type, generation, now, reason, message)
    if (before.generation, before.message) == (generation, message):
        return before
    return ResizeCondition(before.type, generation, before.since, reason, message, now)


def from_status(status: Mapping[str, Any]) -> ResizeConditions:
    """Restores the conditions from the API when the agent starts, so that times and messages survive the restart."""
    found: dict[str, ResizeCondition] = {}
    for shown in status.get("conditions") or ():
        if shown.get("type") in (PENDING, IN_PROGRESS) and shown.get("status") == "True":
            since, probed = _time(shown.get("lastTransitionTime")), _time(shown.get("lastProbeTime"))
            found[shown["type"]] = ResizeCondition(
                shown["type"],
                int(shown.get("observedGeneration") or 0),
                since,
                shown.get("reason") or "",
                shown.get("message") or "",
                probed if probed != since else 0.0,
            )
    return ResizeConditions(found.get(PENDING), found.get(IN_PROGRESS))


def _time(text: str | None) -> float:
    return parse_rfc3339(text) if text else 0.0


def merged(ours: list[Object], before: Iterable[Object], owned: Iterable[str], now: str) -> list[Object]:
    """Our conditions in our order, then those of others.

    Ours are new, and those without a time get it here: the previous one if the status did not change, else now.
    """
    others = {condition["type"]: condition for condition in before}
    for condition in ours:
        old = others.pop(condition["type"], None)
        if not condition.get("lastTransitionTime"):
            same = old is not None and old.get("status") == condition["status"]
            condition["lastTransitionTime"] = (old.get("lastTransitionTime") if old and same else None) or now
    for kind in owned:
        others.pop(kind, None)
    for condition in others.values():
        ours.append(condition if condition.get("lastTransitionTime") else {**condition, "lastTransitionTime": now})
    return ours
