"""Collects autoscalers with newly starved containers, whose pods do not wait for the next pass."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.client.cache import Key, key_of
from podfit.kit.clock import Clock, sleep_unless
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.objects.pods import condition
from podfit.vpa.model.objects.policy import CPU_STARVED, IN_PLACE_MODES, container_recommendations, update_mode

NOT_NOW = Wait(
    "NotYet", "it is starved of CPU and could not be resized in place; the next pass decides whether to evict it"
)


class UrgentVpas:
    def __init__(self) -> None:
        self._waiting: set[Key] = set()
        self._wake = asyncio.Event()

    def on_vpa(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is not None and newly_starved(before, after):
            self._waiting.add(key_of(after))
            self._wake.set()

    def __bool__(self) -> bool:
        """Whether any autoscaler is waiting."""
        return bool(self._waiting)

    def take(self) -> set[Key]:
        """Returns and clears the waiting autoscalers."""
        found, self._waiting = self._waiting, set()
        self._wake.clear()
        return found

    async def before(self, clock: Clock, due: float) -> bool:
        """Waits until an autoscaler is waiting (True), or until `due` (monotonic)."""
        await sleep_unless(clock, due - clock.monotonic(), self._wake)
        return bool(self) and clock.monotonic() < due


def newly_starved(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether containers are newly starved, or are starved and have a changed recommendation."""
    if update_mode(after) not in IN_PLACE_MODES or not _starved(after):
        return False
    return not _starved(before) or _targets(before) != _targets(after)


def _starved(vpa: Mapping[str, Any]) -> bool:
    return (condition(vpa, CPU_STARVED) or {}).get("status") == "True"


def _targets(vpa: Mapping[str, Any]) -> list[Any]:
    return [(entry.get("containerName"), entry.get("target")) for entry in container_recommendations(vpa)]
