"""The two resize conditions: how the gaps between the states are shown, and when their times change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from podfit.agent.decide.states import Object
from podfit.kit.clock import parse_rfc3339, rfc3339

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
DEFERRED, INFEASIBLE, ERROR = "Deferred", "Infeasible", "Error"


class ResizeCondition(Struct, frozen=True):
    type: str
    generation: int
    since: float
    """When it took its present reason."""
    reason: str = ""
    message: str = ""

    def to_json(self) -> Object:
        shown: Object = {
            "type": self.type,
            "observedGeneration": self.generation,
            "status": "True",
            "lastProbeTime": rfc3339(self.since),
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
        return [one.to_json() for one in (self.pending, self.in_progress) if one is not None]

    def refused(self, reason: str, message: str, generation: int, now: float) -> ResizeConditions:
        since = self.pending.since if self.pending is not None and self.pending.reason == reason else now
        return replace(self, pending=ResizeCondition(PENDING, generation, since, reason, message))

    def without_pending(self) -> ResizeConditions:
        return ResizeConditions(None, self.in_progress) if self.pending is not None else self

    def granted(self, generation: int, now: float) -> ResizeConditions:
        return ResizeConditions(None, ResizeCondition(IN_PROGRESS, generation, now))

    def failed(self, message: str, generation: int, now: float) -> ResizeConditions:
        before = self.in_progress or ResizeCondition(IN_PROGRESS, generation, now)
        since = before.since if before.reason == ERROR else now
        return replace(self, in_progress=replace(before, reason=ERROR, message=message, since=since))

    def under_way(self, generation: int, now: float) -> ResizeConditions:
        """In progress without an error; keeps what is known of it."""
        before = self.in_progress
        if before is None:
            return replace(self, in_progress=ResizeCondition(IN_PROGRESS, generation, now))
        if before.reason:
            return replace(self, in_progress=replace(before, reason="", message="", since=now))
        return self

    def completed(self) -> ResizeConditions:
        return ResizeConditions(self.pending, None) if self.in_progress is not None else self


def from_status(status: Mapping[str, Any]) -> ResizeConditions:
    """Taken over from the API when the agent starts, so that times and messages survive it."""
    found: dict[str, ResizeCondition] = {}
    for shown in status.get("conditions") or ():
        if shown.get("type") in (PENDING, IN_PROGRESS) and shown.get("status") == "True":
            found[shown["type"]] = ResizeCondition(
                shown["type"],
                int(shown.get("observedGeneration") or 0),
                parse_rfc3339(shown["lastTransitionTime"]) if shown.get("lastTransitionTime") else 0.0,
                shown.get("reason") or "",
                shown.get("message") or "",
            )
    return ResizeConditions(found.get(PENDING), found.get(IN_PROGRESS))


def merged(ours: list[Object], before: Iterable[Object], owned: Iterable[str], now: str) -> list[Object]:
    """Our conditions in our order, then those of others.

    Ours are new, and those without a time get it here: the old one where the status did not change, else now.
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
