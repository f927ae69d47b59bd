"""Reads a container's log: across rotated files, from the end if only the tail is requested, and following it as it
grows.

Following waits for the kernel's notification of changes in the log's folder; it ends with the container.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import BinaryIO

from podfit.agent.server.logformat import LogOptions, LogPrinter
from podfit.kit.files.folderwatch import FolderWatch

CHUNK = 64 * 1024
_TRIES = 10


def log_files(file: Path) -> list[Path]:
    """The existing log files, rotated ones first, oldest first."""
    rotated = sorted(path for path in file.parent.glob(f"{file.name}.*") if path.suffix != ".gz")
    return [*rotated, file] if file.exists() else rotated


def _counts(line: bytes, stream: bytes) -> bool:
    """Whether an entry ends a line of the requested streams."""
    parts = line.split(b" ", 3)
    return len(parts) >= 3 and not parts[2].startswith(b"P") and (not stream or parts[1] == stream)


def tail_start(file: BinaryIO, wanted: int, stream: bytes) -> tuple[int, int]:
    """The offset at which the last `wanted` lines of a file begin, and the number of lines from there on."""
    position = file.seek(0, os.SEEK_END)
    found, rest = 0, b""
    while position > 0:
        size = min(CHUNK, position)
        position -= size
        file.seek(position)
        block = file.read(size) + rest
        lines = block.split(b"\n")
        rest = lines[0]
        end = position + len(block)
        for line in reversed(lines[1:]):
            begin = end - len(line)
            if line and _counts(line, stream):
                if found == wanted:
                    return end + 1, found
                found += 1
            end = begin - 1
    if rest and _counts(rest, stream):
        if found == wanted:
            return len(rest) + 1, found
        found += 1
    return 0, found


def _open_tail(file: Path, wanted: int | None, stream: bytes) -> BinaryIO | None:
    """Opens the first file to read, at the right offset; later ones are opened one after the other.

    An open file keeps its disk space after rotation deleted it: a slow reader holds one and not all of them.
    """
    chosen: BinaryIO | None = None
    for path in reversed(log_files(file)):
        if wanted is not None and wanted <= 0 and chosen is not None:
            break
        if (earlier := _opened(path)) is None:
            continue
        if chosen is not None:
            chosen.close()
        chosen = earlier
        if wanted is not None:
            start, found = tail_start(chosen, wanted, stream)
            chosen.seek(start if wanted else chosen.seek(0, os.SEEK_END))
            wanted -= found
    return chosen


def _after(file: Path, current: BinaryIO) -> BinaryIO | None:
    """The file that rotation started after `current`, which has been read to its end; None if there is none.

    The oldest of all if `current` is deleted: files between them are lost.
    """
    here = _identity(current.fileno())
    for _ in range(_TRIES):
        files = log_files(file)
        known = [_identity(path) for path in files]
        place = known.index(here) + 1 if here in known else 0
        if place == len(files) or current.tell() < os.fstat(current.fileno()).st_size:
            return None
        following = _opened(files[place])
        if following is not None and log_files(file) == files:
            return following
        # The file was rotated while the folder was read: the name may now refer to another file.
        if following is not None:
            following.close()
    return None


async def read_log(file: Path, options: LogOptions) -> AsyncIterator[bytes]:
    """Reads the current contents."""
    printer = LogPrinter(options)
    there = {_identity(path) for path in log_files(file)}
    current = _open_tail(file, options.tail_lines, options.stream)
    try:
        while current is not None and not printer.full:
            if data := current.read(CHUNK):
                if shown := printer.feed(data):
                    yield shown
                # Reading a file never waits: other tasks run between two pieces.
                await asyncio.sleep(0)
                continue
            following = _after(file, current)
            current.close()
            current = following
            if current is not None and _identity(current.fileno()) not in there:
                # Otherwise a container that writes faster than its log is read would keep this from ending.
                break
    finally:
        if current is not None:
            current.close()
    if shown := printer.finish():
        yield shown


Ended = Callable[[], Awaitable[bool]]


async def follow_log(file: Path, options: LogOptions, watch: FolderWatch, ended: Ended) -> AsyncIterator[bytes]:
    """Reads the current contents and new entries, until the container has ended and everything is read."""
    printer = LogPrinter(options)
    current = _open_tail(file, options.tail_lines, options.stream)
    try:
        while not printer.full:
            if current is None:
                current = _opened(file)
            over = await ended()
            data = current.read(CHUNK) if current is not None else b""
            if data:
                if shown := printer.feed(data):
                    yield shown
            elif current is not None and (following := _after(file, current)) is not None:
                current.close()
                current = following
            elif over and (current is None or current.tell() >= os.fstat(current.fileno()).st_size):
                break
            elif not over:
                await watch.wait()
        if shown := printer.finish():
            yield shown
    finally:
        if current is not None:
            current.close()


def _opened(file: Path) -> BinaryIO | None:
    try:
        return file.open("rb")
    except OSError:
        return None


def _identity(file: Path | int) -> tuple[int, int] | None:
    """Identifies a file: the same for all its names over time, and for its descriptor."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino
