"""Fetches the log of a VM from before its migration through the API server, and prepends it to its log here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import ContainerState
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.files.atomicfile import write_atomic

log = logging.getLogger(__name__)
MOST_BYTES = 10 << 20
"""The maximum size of one container log file."""


FileOf = Callable[[PodRecord, str, int], Path]


class EarlierLogs:
    def __init__(self, client: Client, file_of: FileOf) -> None:
        self._client, self._file_of = client, file_of

    async def fetch(self, record: PodRecord, container: ContainerState) -> None:
        """Fetches the log once: the file exists afterwards. A log that cannot be read does not block the migration."""
        target = self._file_of(record, container.name, container.attempt)
        if target.exists():
            return
        path = POD.path(record.namespace, record.name, "log")
        query = {"container": container.name, "timestamps": "true", "limitBytes": str(MOST_BYTES)}
        try:
            text = await self._client.raw("GET", path, query, decode=bytes.decode)
        except (ApiError, Unreachable, UnicodeDecodeError) as error:
            log.warning("the previous log of %s is lost: %s", record.who, error)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, entries(str(text)).encode(), durable=False)


def entries(text: str) -> str:
    """Converts lines with their times, as served by the API, to the format of container logs."""
    rows = []
    for line in text.splitlines():
        stamp, _, rest = line.partition(" ")
        rows.append(f"{stamp} stdout F {rest}\n")
    return "".join(rows)
