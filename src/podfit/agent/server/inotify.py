"""Tells when something in a folder changed, by inotify; without it (no watches left) by looking twice a second."""

from __future__ import annotations

import asyncio
import ctypes
import os
from contextlib import suppress
from pathlib import Path

_MODIFY, _CLOSE_WRITE, _MOVED, _CREATE, _DELETE = 0x2, 0x8, 0xC0, 0x100, 0x200
_MASK = _MODIFY | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE
_FALLBACK_S = 0.5
_libc = ctypes.CDLL(None, use_errno=True)


class FolderWatch:
    def __init__(self, folder: Path) -> None:
        self._changed = asyncio.Event()
        self._descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            return
        if _libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _MASK) < 0:
            os.close(self._descriptor)
            self._descriptor = -1
            return
        asyncio.get_running_loop().add_reader(self._descriptor, self._readable)

    def _readable(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._descriptor, 65536)
        self._changed.set()

    def poke(self) -> None:
        """Wakes the waiter for a reason that is not in the folder."""
        self._changed.set()

    async def wait(self) -> None:
        """Until something changed since the last call."""
        try:
            async with asyncio.timeout(None if self._descriptor >= 0 else _FALLBACK_S):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
