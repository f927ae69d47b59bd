"""Copies a VM's serial console to the container log: QEMU writes raw bytes to a file, which are copied in CRI's log
format.

The space of copied bytes is released, so the raw file stays small however much the guest prints. The offset of the copy
is stored beside the file; after kill -9 at most the last piece is copied twice, and none is lost.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.files.folderwatch import FolderWatch

log = logging.getLogger(__name__)
_PIECE = 64 * 1024
_LONGEST = 16 * 1024
"""The maximum bytes of a log line before it is split, as in other runtimes."""
_GATHER_S = 0.05
_PUNCH = 0x01 | 0x02
_libc = ctypes.CDLL(None, use_errno=True)


def lines(data: bytes, stamp: str) -> bytes:
    """The log entries of a piece of output: F ends a line, P is continued by the next entry."""
    entries = []
    for line in data.splitlines(keepends=True) if b"\r" not in data else _unix(data).splitlines(keepends=True):
        whole = line.endswith(b"\n")
        text = line.rstrip(b"\n")
        pieces = [text[at : at + _LONGEST] for at in range(0, len(text), _LONGEST)] or [b""]
        for piece in pieces[:-1]:
            entries.append(b"%s stdout P %s\n" % (stamp.encode(), piece))
        entries.append(b"%s stdout %s %s\n" % (stamp.encode(), b"F" if whole else b"P", pieces[-1]))
    return b"".join(entries)


def _unix(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"")


class Console:
    """Copies one VM's console until it is closed."""

    def __init__(self, raw: Path, target: Path | None) -> None:
        self._raw, self._target = raw, target
        self._note = raw.parent.with_suffix(".offset")
        self._offset = self._noted()
        self._out: int | None = None
        self._watch: FolderWatch | None = None
        self._tasks = Tasks("console")

    def _noted(self) -> int:
        with suppress(OSError, ValueError):
            return int(self._note.read_text())
        return 0

    def start(self) -> None:
        self._raw.parent.mkdir(parents=True, exist_ok=True)
        if self._target is not None and self._out is None:
            # Callers open the log of a container as soon as it runs; the guest's first line may take a while.
            self._append(self._target, b"")
        self._watch = FolderWatch(self._raw.parent)
        self._tasks.start(self._follow(self._watch))

    async def _follow(self, watch: FolderWatch) -> None:
        while True:
            self.copy()
            await watch.wait()
            # QEMU writes one or a few characters at a time; after a short wait the line is mostly complete.
            await asyncio.sleep(_GATHER_S)

    def copy(self) -> None:
        """Copies everything that is in the raw file and not yet in the log."""
        if self._target is None:
            return
        try:
            while data := self._read():
                self._append(self._target, data)
                self._offset += len(data)
                self._note.write_text(str(self._offset))
                self._release()
        except OSError as error:
            log.warning("the console log %s cannot be written: %s", self._target, error)

    def _read(self) -> bytes:
        try:
            with self._raw.open("rb") as file:
                file.seek(self._offset)
                return file.read(_PIECE)
        except FileNotFoundError:
            return b""

    def _append(self, target: Path, data: bytes) -> None:
        if self._out is None:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._out = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
        os.write(self._out, lines(data, stamp))

    def _release(self) -> None:
        """Turns copied blocks of the raw file into a hole; QEMU keeps writing at its end."""
        descriptor = os.open(self._raw, os.O_RDWR | os.O_CLOEXEC)
        try:
            _libc.fallocate(descriptor, _PUNCH, ctypes.c_long(0), ctypes.c_long(self._offset & ~4095))
        finally:
            os.close(descriptor)

    def say(self, text: str) -> None:
        """Adds a line from the runtime itself to the log."""
        if self._target is not None:
            self._append(self._target, f"{text}\n".encode())

    def reopen(self) -> None:
        """Called after the log file was renamed: the next entry is written to a new file, which exists at once."""
        if self._out is not None:
            os.close(self._out)
            self._out = None
        if self._target is not None:
            self._append(self._target, b"")

    async def close(self) -> None:
        """Stops copying, after the last output was copied."""
        self.copy()
        await self._tasks.stop()
        if self._watch is not None:
            self._watch.close()
        if self._out is not None:
            os.close(self._out)
            self._out = None
