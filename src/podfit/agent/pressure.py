"""Reads the machine every few seconds and tells the node's conditions as soon as a pressure comes or goes.

Only for runtimes that use the machine: what a simulated node runs says nothing about the host, nor the other way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from podfit.agent.decide.pressure import Readings, seen_after
from podfit.agent.ledger import Ledger
from podfit.agent.node import NodeKeeper
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock

log = logging.getLogger(__name__)

EVERY_S = 10.0


def machine_readings(data_dir: Path, ledger: Ledger, proc: Path = Path("/proc")) -> Readings:
    free, size = _disk(data_dir)
    used, most = _pids(proc)
    return Readings(_memory(proc), free, size, used, most, bool(ledger.trouble))


def _memory(proc: Path) -> int | None:
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    except (OSError, ValueError, IndexError):
        return None


def _disk(folder: Path) -> tuple[int | None, int]:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None, 0
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _pids(proc: Path) -> tuple[int | None, int]:
    """Threads count: each of them has an id. `loadavg` knows their number without a walk through all processes."""
    try:
        most = int((proc / "sys/kernel/pid_max").read_text())
        return int((proc / "loadavg").read_text().split()[3].partition("/")[2]), most
    except (OSError, ValueError, IndexError):
        return None, 0


class PressureWatch:
    def __init__(self, node: NodeKeeper, clock: Clock, read: Callable[[], Readings]) -> None:
        self._node, self._clock, self._read = node, clock, read
        self._seen: dict[str, float] = {}
        self._told: frozenset[str] = frozenset()

    async def run(self) -> None:
        while True:
            await self.look()
            await self._clock.sleep(EVERY_S)

    async def look(self) -> None:
        self._seen = seen_after(self._seen, self._read(), self._clock.monotonic())
        pressed = frozenset(self._seen)
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
