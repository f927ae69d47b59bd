"""Resolves parts of volumes (`subPath`) to paths that a runtime can mount safely.

CRI takes a path, and a container that can write to the volume may replace a folder by a link before the runtime opens
it (CVE-2021-25741). So the kernel resolves the path below the volume, the result is bind-mounted at a path that only
the agent can change, and the runtime gets that path.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from podfit.agent.runtimes.process.keeper import beneath, linux
from podfit.agent.runtimes.values import CannotRun, Mount


class SubPaths:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self, uid: str, name: str, attempt: int, mounts: tuple[Mount, ...]) -> list[Mount]:
        return [
            self._bind(mount, self._folder / uid / f"{name}-{attempt}-{number}")
            if mount.sub_path and not mount.image_id
            else mount
            for number, mount in enumerate(mounts)
        ]

    def _bind(self, mount: Mount, place: Path) -> Mount:
        volume = os.open(mount.host_path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = beneath.open_beneath(volume, mount.sub_path)
        except OSError as error:
            raise CannotRun(
                f"failed to prepare subPath {mount.sub_path}: {error.strerror}", "CreateContainerConfigError"
            ) from error
        finally:
            os.close(volume)
        try:
            self._unmount(place)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.path.isdir(f"/proc/self/fd/{found}"):
                place.mkdir(exist_ok=True)
            else:
                place.touch()
            linux.mount(f"/proc/self/fd/{found}", str(place), flags=linux.MS_BIND | linux.MS_REC)
        finally:
            os.close(found)
        return replace(mount, host_path=place, sub_path="")

    @staticmethod
    def _unmount(place: Path) -> None:
        with suppress(OSError):
            linux.unmount(str(place))

    def remove(self, uid: str) -> None:
        """Removes all mounts of a pod, with its last container."""
        folder = self._folder / uid
        if not folder.is_dir():
            return
        for place in folder.iterdir():
            self._unmount(place)
            with suppress(OSError):
                place.rmdir() if place.is_dir() else place.unlink()
        with suppress(OSError):
            folder.rmdir()
