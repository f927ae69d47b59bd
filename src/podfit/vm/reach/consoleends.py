"""Connects `kubectl attach` to a VM's serial console: the guest's output, and input to it."""

from __future__ import annotations

import asyncio
import os
import tty
from contextlib import suppress

from podfit.streaming.ends import StreamFailure

_STDOUT = 1
_PIECE = 16 * 1024


class ConsoleStream:
    """An attached console. The guest's end is a pty; the output is still logged."""

    def __init__(self, path: str, ended: asyncio.Event, stdin: bool) -> None:
        self._path, self._ended, self._stdin = path, ended, stdin
        self._descriptor = -1
        self._readable = asyncio.Event()

    def open(self) -> None:
        """Opens the console. Raises StreamFailure."""
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            tty.setraw(self._descriptor)
        except OSError as error:
            raise StreamFailure(f"the console cannot be opened: {error.strerror}") from error
        asyncio.get_running_loop().add_reader(self._descriptor, self._readable.set)

    async def read(self) -> tuple[int, bytes] | None:
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            while self._descriptor >= 0:
                with suppress(BlockingIOError, OSError):
                    data = os.read(self._descriptor, _PIECE)
                    if data:
                        return _STDOUT, data
                if self._ended.is_set():
                    return None
                self._readable.clear()
                readable = asyncio.ensure_future(self._readable.wait())
                await asyncio.wait((readable, ended), return_when=asyncio.FIRST_COMPLETED)
                readable.cancel()
            return None
        finally:
            ended.cancel()

    async def write(self, data: bytes) -> None:
        while data and self._stdin and self._descriptor >= 0:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)
            except OSError:
                return

    async def close_stdin(self) -> None:
        return

    async def resize(self, columns: int, rows: int) -> None:
        return

    async def wait(self) -> int:
        await self._ended.wait()
        return 0

    async def close(self) -> None:
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
