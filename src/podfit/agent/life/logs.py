"""Rotates container logs that have grown too large; keeps a few old ones."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from podfit.agent.config import AgentConfig
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import RUNNING, Runtime, RuntimeFailure
from podfit.kit.clock import Clock

log = logging.getLogger(__name__)

_EVERY_S = 10.0


class LogRotation:
    def __init__(self, config: AgentConfig, runtime: Runtime, clock: Clock, records: Mapping[str, PodRecord]) -> None:
        self._config, self._runtime, self._clock, self._records = config, runtime, clock, records

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            for record in list(self._records.values()):
                await self._rotate_pod(record)

    async def _rotate_pod(self, record: PodRecord) -> None:
        state = record.state
        for container in state.containers if state is not None else ():
            if container.state != RUNNING or state is None:
                continue
            file = state.config.log_folder / container.name / f"{container.attempt}.log"
            try:
                if file.stat().st_size >= self._config.log_max_bytes:
                    await self.rotate(file, container.id)
            except (OSError, RuntimeFailure) as error:
                log.debug("log %s: %s", file, error)

    async def rotate(self, file: Path, container_id: str) -> None:
        old = sorted(file.parent.glob(f"{file.name}.*"))
        for surplus in old[: max(0, len(old) - (self._config.log_max_files - 2))]:
            surplus.unlink(missing_ok=True)
        os.replace(file, file.with_name(f"{file.name}.{int(self._clock.now() * 1000):015d}"))
        await self._runtime.reopen_log(container_id)
