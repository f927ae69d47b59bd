"""Maintains the sum of the resources that a node's pods hold: read for every decision, recomputed only for pods that
changed."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.pods.record import PodRecord
from podfit.api.pods.resources import Amounts
from podfit.api.quantity import Quantity


class Reservations:
    def __init__(self, records: Mapping[str, PodRecord]) -> None:
        self._records = records
        self._counted: dict[str, Amounts] = {}
        """The resources of each pod when the sum was last computed."""
        self._nanos: dict[str, int] = {}
        self._changed: set[str] = set()

    def changed(self, uid: str) -> None:
        """Marks a pod as changed; the sum is corrected when it is next read."""
        self._changed.add(uid)

    def by_others(self, uid: str) -> tuple[Amounts, int]:
        """The resources held by other pods, and their number."""
        self._follow()
        mine = self._counted.get(uid)
        if mine is None:
            return {name: Quantity(nanos) for name, nanos in self._nanos.items()}, len(self._counted)
        left = dict(self._nanos)
        for name, amount in mine.items():
            left[name] -= amount.nanos
        return {name: Quantity(nanos) for name, nanos in left.items()}, len(self._counted) - 1

    def _follow(self) -> None:
        for uid in self._changed:
            self._leave(uid)
            record = self._records.get(uid)
            if record is not None and record.admitted and record.holds:
                self._enter(uid, record.used)
        self._changed.clear()

    def _enter(self, uid: str, held: Amounts) -> None:
        self._counted[uid] = held
        for name, amount in held.items():
            self._nanos[name] = self._nanos.get(name, 0) + amount.nanos

    def _leave(self, uid: str) -> None:
        for name, amount in self._counted.pop(uid, {}).items():
            self._nanos[name] -= amount.nanos
