"""Tracks the room that granted decreases free once they are applied. A resize that waits only for such room is not
reported as pending.

A decrease is granted before the increases of the same round, but its pod holds the old size until the runtime has
applied the new one. That takes milliseconds, in which a condition and a Warning would appear and disappear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from podfit.agent.pods.record import PodRecord
from podfit.api.pods.resources import Amounts
from podfit.api.pods.room import units
from podfit.api.quantity import ZERO
from podfit.api.resize.states import Allocated
from podfit.api.resize.verdicts import Shortage
from podfit.kit.clock import Clock

GRACE_S = 1.0
"""After this time a resize that waits for a decrease is reported as pending."""


class Freeing:
    def __init__(self, records: Mapping[str, PodRecord], clock: Clock) -> None:
        self._records, self._clock = records, clock
        self._freeing: dict[str, tuple[Allocated, Amounts]] = {}
        """The allocation and the resources that it will free, by pod."""
        self._silent: dict[str, float] = {}
        """Resizes that wait without being reported, and the time until which they do (monotonic)."""

    def counted(self, uid: str, allocated: Allocated, held: Amounts, requests: Amounts) -> None:
        """Records the resources that a pod occupies now, and those that it will occupy once `allocated` is applied."""
        more = (
            {name: amount - requests.get(name, ZERO) for name, amount in held.items()} if held is not requests else {}
        )
        if less := {name: amount for name, amount in more.items() if amount.nanos > 0}:
            self._freeing[uid] = (allocated, less)
        else:
            self._freeing.pop(uid, None)

    def forget(self, uid: str) -> None:
        self._freeing.pop(uid, None)
        self._silent.pop(uid, None)

    def keep_silent(self, uid: str, missing: Iterable[Shortage]) -> bool:
        """Whether the pod's resize fits once decreases in progress are applied, and has not waited too long to stay
        unreported."""
        if not all(self._covered(uid, short) for short in missing):
            self._silent.pop(uid, None)
            return False
        now = self._clock.monotonic()
        if now < self._silent.setdefault(uid, now + GRACE_S):
            return True
        del self._silent[uid]
        return False

    def _covered(self, uid: str, short: Shortage) -> bool:
        coming = sum(
            units(short.resource, less.get(short.resource, ZERO))
            for other, (allocated, less) in self._freeing.items()
            if other != uid and self._under_way(other, allocated)
        )
        return short.requested <= short.capacity - short.used + coming

    def _under_way(self, uid: str, allocated: Allocated) -> bool:
        record = self._records.get(uid)
        return record is not None and record.holds and record.failed is not allocated and not record.restarting

    def grace_left_s(self, pending: Collection[str]) -> float | None:
        """The seconds until the first unreported resize is reported; None if there is none."""
        for uid in self._silent.keys() - pending:
            del self._silent[uid]
        if not self._silent:
            return None
        return max(0.0, min(self._silent.values()) - self._clock.monotonic())
