"""Rate limits for Events: similar Events are aggregated, and a source that emits too many is throttled. Pure.

The limits are those of Kubernetes. Of Events that differ only in their message, the tenth within ten minutes and all
later ones are sent as one, with the message of the latest. A component may emit 25 Events about an object in a burst,
then one every five minutes.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

SIMILAR, WITHIN_S = 10, 600.0
BURST, EVERY_S = 25, 300.0
_REMEMBERED = 4096
Key = tuple[object, ...]


class Admitted(Struct, frozen=True, gc=False):
    message: str
    combined: bool
    """One Event represents many: its message is replaced, its count incremented."""


class _Similar(Struct):
    last_s: float
    messages: dict[str, None] = {}


class _RateLimit(Struct, gc=False):
    left: float
    at_s: float


class Correlator:
    def __init__(self) -> None:
        self._similar: OrderedDict[Key, _Similar] = OrderedDict()
        self._limits: OrderedDict[Key, _RateLimit] = OrderedDict()

    def admit(self, who: Key, type: str, reason: str, message: str, now: float) -> Admitted | None:
        """The Event to send, or None if it exceeds its rate limit; `who` is the component and the object."""
        admitted = self._combine((who, type, reason), message, now)
        return admitted if self._within_limit(who, now) else None

    def _combine(self, key: Key, message: str, now: float) -> Admitted:
        known = self._similar.get(key)
        if known is None or now - known.last_s > WITHIN_S:
            known = self._similar[key] = _Similar(now)
        self._similar.move_to_end(key)
        if len(self._similar) > _REMEMBERED:
            self._similar.popitem(last=False)
        known.messages[message] = None
        known.last_s = now
        if len(known.messages) < SIMILAR:
            return Admitted(message, False)
        del known.messages[next(iter(known.messages))]
        return Admitted(f"(combined from similar events): {message}", True)

    def _within_limit(self, who: Key, now: float) -> bool:
        known = self._limits.get(who)
        if known is None:
            known = self._limits[who] = _RateLimit(BURST, now)
        self._limits.move_to_end(who)
        if len(self._limits) > _REMEMBERED:
            self._limits.popitem(last=False)
        left = known.left + (now - known.at_s) / EVERY_S
        known.left, known.at_s = left if left < BURST else float(BURST), now
        if known.left < 1:
            return False
        known.left -= 1
        return True
