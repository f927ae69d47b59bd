"""Reports changes in a folder, using inotify, or polling if inotify is not available (no watches left, no folder).

It reports that something changed, not what: the caller reads the folder. A folder that is deleted, renamed or missing
is checked twice a second, and watched again once it exists.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from contextlib import suppress
from pathlib import Path

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0xC0, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _IGNORED = 0x400, 0x800, 0x2000, 0x8000
EVERY_WRITE = _MODIFY | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE
WHOLE_FILES = _ATTRIB | _CLOSE_WRITE | _MOVED | _DELETE
"""Files are reported when their writer closes them, not while they are half written."""
_LOST = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED
_FALLBACK_S = 0.5
_HEAD = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class FolderWatch:
    def __init__(self, folder: Path, mask: int = EVERY_WRITE) -> None:
        self._folder, self._mask = folder, mask
        self._changed = asyncio.Event()
        self._descriptor = -1
        self._open()

    def _open(self) -> None:
        descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return
        if _libc.inotify_add_watch(descriptor, os.fsencode(self._folder), self._mask | _DELETE_SELF | _MOVE_SELF) < 0:
            os.close(descriptor)
            return
        self._descriptor = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._readable)

    def _readable(self) -> None:
        data = b""
        with suppress(BlockingIOError):
            data = os.read(self._descriptor, 65536)
        self._changed.set()
        while len(data) >= _HEAD.size:
            _, kind, _, length = _HEAD.unpack_from(data)
            data = data[_HEAD.size + length :]
            if kind & _LOST:
                self.close()
                return

    @property
    def notified(self) -> bool:
        """Whether the kernel sends notifications; otherwise the folder is polled."""
        return self._descriptor >= 0

    def wake(self) -> None:
        """Wakes the waiter for a reason outside the folder."""
        self._changed.set()

    async def wait(self) -> None:
        """Waits until something has changed since the last call."""
        try:
            async with asyncio.timeout(None if self.notified else _FALLBACK_S):
                await self._changed.wait()
        except TimeoutError:
            # Changes made before the watch existed are found by the next read of the folder.
            self._open()
            return
        self._changed.clear()

    def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
