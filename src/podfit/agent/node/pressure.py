"""Reads the machine every few seconds, and reports the node's conditions as soon as a pressure begins or ends.

Only for runtimes that use the machine: a simulated node is independent of the host.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from podfit.agent.decide.node.pressure import CrossedThreshold, Readings, crossed, seen_after
from podfit.agent.decide.node.thresholds import DEFAULTS, DISK, MEMORY, Threshold
from podfit.agent.node.node import NodeKeeper
from podfit.agent.pods.ledger import Ledger
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
    """The kernel's memory counters, in bytes by name."""
    try:
        rows = [line.split() for line in (proc / "meminfo").read_text().splitlines()]
        return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}
    except (OSError, ValueError, IndexError):
        return {}


def _disk(folder: Path) -> tuple[int | None, int, int | None, int]:
    """Free and total bytes, free and total inodes. File systems that create inodes on demand report none."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None, 0, None, 0
    inodes = found.f_favail if found.f_files else None
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, inodes, found.f_files


def _pids(proc: Path) -> tuple[int | None, int]:
    """The process IDs in use. Threads count, because each has an ID. `loadavg` has their number without a scan of all
    processes."""
    try:
        most = int((proc / "sys/kernel/pid_max").read_text())
        return int((proc / "loadavg").read_text().split()[3].partition("/")[2]), most
    except (OSError, ValueError, IndexError):
        return None, 0


async def _nothing() -> None:
    """Reclaims nothing: there is nothing to delete."""


async def _no_eviction() -> bool:
    return False


async def _no_relief(met: CrossedThreshold) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class PressureResponse:
    """The node's response to pressure."""

    relieved: Callable[[], None] = lambda: None
    """Called when a pressure is over."""
    relieve: Callable[[CrossedThreshold], Awaitable[bool]] = _no_relief
    """Called when a reading shows too little memory or disk. True if a pod is being evicted."""
    reclaim: Callable[[], Awaitable[None]] = _nothing
    """Deletes unused files and images, before a pod is evicted for disk pressure."""
    enforce: Callable[[], Awaitable[bool]] = _no_eviction
    """Evicts pods that use more of the disk than their limits. True if any did."""


class PressureWatch:
    def __init__(
        self,
        node: NodeKeeper,
        clock: Clock,
        read: Callable[[], Readings],
        thresholds: Sequence[Threshold] = DEFAULTS,
        response: PressureResponse | None = None,
    ) -> None:
        self._node, self._clock, self._read, self._thresholds = node, clock, read, thresholds
        self.response = response or PressureResponse()
        self._seen: dict[str, float] = {}
        self._published: frozenset[str] = frozenset()

    async def run(self) -> None:
        while True:
            leaving = await self.check()
            await self._clock.sleep(SOON_S if leaving else EVERY_S)

    async def check(self) -> bool:
        """Reads the machine and responds to pressure. True if a pod is being evicted: its resources will be free
        soon."""
        readings = self._read()
        self._seen = seen_after(self._seen, readings, self._clock.monotonic(), self._thresholds)
        pressed = frozenset(self._seen)
        relieved = self._node.pressed - pressed
        if pressed != self._node.pressed:
            log.warning("node %s: under pressure: %s", self._node.name, ", ".join(sorted(pressed)) or "none any more")
        self._node.pressed = pressed
        if relieved:
            self.response.relieved()
        # The API server is updated first: reclaiming takes a while, and no new pods should be bound meanwhile.
        await self._publish(pressed)
        return await self.response.enforce() or await self._relieve(readings)

    async def _relieve(self, readings: Readings) -> bool:
        short = self._short(readings)
        if short is not None and short.threshold.condition == DISK:
            await self.response.reclaim()
            short = self._short(self._read())
        return short is not None and await self.response.relieve(short)

    def _short(self, readings: Readings) -> CrossedThreshold | None:
        """The resource under pressure; memory first, because it runs out fastest."""
        found = {met.threshold.condition: met for met in reversed(crossed(readings, self._thresholds))}
        return found.get(MEMORY) or found.get(DISK)

    async def _publish(self, pressed: frozenset[str]) -> None:
        if pressed == self._published or not self._node.known:
            return
        try:
            await self._node.publish()
            self._published = pressed
        except (ApiError, Unreachable) as error:
            # The pressures are published again with the next reading.
            log.info("reporting the pressures of %s: %s", self._node.name, error)
