"""Measures pods' usage of the node's disk, and deletes what is not needed under disk pressure."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from podfit.agent.decide.node.storage import DiskUse, disk_volumes
from podfit.agent.furnish.volumes.volumes import Volumes
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RuntimeFailure

LOGS_KEPT = 2
"""Attempts of a container whose last log file is kept: the running one, and the one before it."""


def measure(folder: Path) -> tuple[int, int]:
    """Bytes on the disk and inodes of a file or a folder; links are not followed, other file systems are skipped.

    Raises OSError for a tree that cannot be measured, for example because of very long paths.
    """
    try:
        root = os.lstat(folder)
    except FileNotFoundError:
        return 0, 0
    if not stat.S_ISDIR(root.st_mode):
        return root.st_blocks * 512, 1
    size, seen, waiting = 0, {root.st_ino}, [str(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if found.st_dev != root.st_dev or found.st_ino in seen:
                continue
            seen.add(found.st_ino)
            size += found.st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
    return size, len(seen)


class DiskMeter:
    def __init__(
        self,
        records: Mapping[str, PodRecord],
        runtime: Runtime,
        volumes: Volumes,
        log_folder: Callable[[PodRecord], Path],
        delete_images: Callable[[], Awaitable[None]],
    ) -> None:
        self._records, self._runtime, self._volumes, self._log_folder = records, runtime, volumes, log_folder
        self._delete_images = delete_images

    async def use(self, record: PodRecord) -> DiskUse | None:
        """A pod's usage of the disk; None if it is unknown."""
        logs, messages = self._log_folder(record), self._volumes.folder(record.uid) / "containers"
        files = [*await self._runtime.pod_files(record.uid), self._volumes.hosts_file(record.uid)]
        folders: dict[str, list[Path]] = {}
        for container in record.state.containers if record.state is not None else ():
            layer = await self._runtime.writable_layer(container.id)
            own = [logs / container.name, messages / container.name]
            folders[container.name] = [*own, *([layer] if layer is not None else [])]
        volumes = {volume["name"]: self._volumes.path(record.uid, volume) for volume in disk_volumes(record.pod)}
        try:
            return await asyncio.to_thread(_use, folders, volumes, files)
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EACCES, errno.EIO, errno.ELOOP):
                return None
            raise

    async def reclaim(self) -> None:
        """Deletes what no running container needs: volumes of finished pods, old logs, layers and images."""
        for record in list(self._records.values()):
            if record.finished:
                await asyncio.to_thread(self._volumes.remove, record.uid)
            await asyncio.to_thread(_remove_old_logs, self._log_folder(record))
        with suppress(RuntimeFailure):
            await self._runtime.reclaim_disk()
            await self._delete_images()


def _use(folders: Mapping[str, list[Path]], volumes: Mapping[str, Path], files: list[Path]) -> DiskUse:
    containers = {name: [measure(path) for path in places] for name, places in folders.items()}
    measured = {name: measure(place) for name, place in volumes.items()}
    shared = [measure(file) for file in files]
    inodes = sum(count for found in (*containers.values(), shared) for _, count in found)
    return DiskUse(
        {name: sum(size for size, _ in found) for name, found in containers.items()},
        {name: size for name, (size, _) in measured.items()},
        inodes + sum(count for _, count in measured.values()),
        sum(size for size, _ in shared),
    )


def _remove_old_logs(folder: Path) -> None:
    """Removes rotated log files of all attempts, and all log files of attempts before the last two."""
    with suppress(OSError):
        for container in folder.iterdir():
            current = sorted((log for log in container.glob("*.log") if log.stem.isdecimal()), key=_attempt)
            kept = set(current[-LOGS_KEPT:])
            for file in container.glob("*.log*"):
                if file not in kept:
                    file.unlink(missing_ok=True)


def _attempt(file: Path) -> int:
    return int(file.stem)
