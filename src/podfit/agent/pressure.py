"""Reads the machine every few seconds and tells the node's conditions as soon as a pressure comes or goes.

Only for runtimes that use the machine: what a simulated node runs says nothing about the host, nor the other way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from podfit.agent.decide.pressure import Met, Readings, crossed, seen_after
from podfit.agent.decide.thresholds import DEFAULTS, DISK, MEMORY, Threshold
from podfit.agent.ledger import Ledger
from podfit.agent.node import NodeKeeper
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock

log = logging.getLogger(__name__)

EVERY_S, SOON_S = 10.0, 2.0


def machine_readings(data_dir: Path, ledger: Ledger, proc: Path = Path("/proc")) -> Readings:
    memory = _memory(proc)
    used, most = _pids(proc)
    disk = _disk(data_dir)
    return Readings(
        memory.get("MemAvailable"), memory.get("MemTotal", 0), *disk, used, most, unwritable=bool(ledger.check())
    )


def _memory(proc: Path) -> dict[str, int]:
    """Bytes by name."""
    try:
        rows = [line.split() for line in (proc / "meminfo").read_text().splitlines()]
        return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}
    except (OSError, ValueError, IndexError):
        return {}


def _disk(folder: Path) -> tuple[int | None, int, int | None, int]:
    """Free and all bytes, free and all inodes; file systems that make inodes as they go tell of none."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None, 0, None, 0
    inodes = found.f_favail if found.f_files else None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, inodes, found.f_files


def _pids(proc: Path) -> tuple[int | None, int]:
    """Threads count: each of them has an id. `loadavg` knows their number without a walk through all processes."""
    try:
        most = int((proc / "sys/kernel/pid_max").read_text())
        return int((proc / "loadavg").read_text().split()[3].partition("/")[2]), most
    except (OSError, ValueError, IndexError):
        return None, 0


async def _bear(met: Met) -> bool:
    """Nothing is done about it."""
    return False


async def _delete_nothing() -> None:
    """There is nothing to delete."""


async def _evict_nobody() -> bool:
    return False


class PressureWatch:
    def __init__(
        self,
        node: NodeKeeper,
        clock: Clock,
        read: Callable[[], Readings],
        thresholds: Sequence[Threshold] = DEFAULTS,
    ) -> None:
        self._node, self._clock, self._read, self._thresholds = node, clock, read, thresholds
        self.changed: Callable[[frozenset[str]], None] = lambda pressed: None
        """Told which pressures there are, at each look."""
        self.relieve: Callable[[Met], Awaitable[bool]] = _bear
        """Asked for help whenever a reading shows too little memory or disk; whether a pod is on its way out."""
        self.reclaim: Callable[[], Awaitable[None]] = _delete_nothing
        """Deletes what nobody needs, before anybody has to leave for want of disk."""
        self.enforce: Callable[[], Awaitable[bool]] = _evict_nobody
        """Ends pods that use more of the disk than they may; whether there was one."""
        self._seen: dict[str, float] = {}
        self._told: frozenset[str] = frozenset()

    async def run(self) -> None:
        while True:
            leaving = await self.look()
            await self._clock.sleep(SOON_S if leaving else EVERY_S)

    async def look(self) -> bool:
        """Whether a pod is on its way out: what it held will be there soon, or has to be deleted."""
        readings = self._read()
        self._seen = seen_after(self._seen, readings, self._clock.monotonic(), self._thresholds)
        pressed = frozenset(self._seen)
        self.changed(pressed)
        # First to the API server: reclaiming takes a while, and no new pods should come meanwhile.
        await self._tell(pressed)
        return await self.enforce() or await self._relieve(readings)

    async def _relieve(self, readings: Readings) -> bool:
        short = self._short(readings)
        if short is not None and short.threshold.condition == DISK:
            await self.reclaim()
            short = self._short(self._read())
        return short is not None and await self.relieve(short)

    def _short(self, readings: Readings) -> Met | None:
        """Of what there is too little; of memory first, which runs out the fastest."""
        found = {met.threshold.condition: met for met in reversed(crossed(readings, self._thresholds))}
        return found.get(MEMORY) or found.get(DISK)

    async def _tell(self, pressed: frozenset[str]) -> None:
        if pressed != self._node.pressed:
            log.warning("node %s: under pressure: %s", self._node.name, ", ".join(sorted(pressed)) or "none any more")
        self._node.pressed = pressed
        if pressed == self._told or not self._node.known:
            return
        try:
            await self._node.publish()
            self._told = pressed
        except (ApiError, Unreachable) as error:
            # Told with the next reading.
            log.info("telling the pressures of %s: %s", self._node.name, error)
