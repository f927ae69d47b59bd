"""Reads a container's log: over rotated files, from the end when only the tail is wanted, and on as it grows.

Following waits for the kernel to tell of changes in the log's folder; it ends with the container.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import BinaryIO

from podfit.agent.server.logformat import LogOptions, LogPrinter
from podfit.kit.folderwatch import FolderWatch

CHUNK = 64 * 1024


def log_files(file: Path) -> list[Path]:
    """The log with its rotated parts, oldest first; those that exist."""
    rotated = sorted(one for one in file.parent.glob(f"{file.name}.*") if one.suffix != ".gz")
    return [*rotated, file] if file.exists() else rotated


def _counts(line: bytes, stream: bytes) -> bool:
    """Whether an entry ends a line of the streams wanted."""
    parts = line.split(b" ", 3)
    return len(parts) >= 3 and not parts[2].startswith(b"P") and (not stream or parts[1] == stream)


def tail_start(file: BinaryIO, wanted: int, stream: bytes) -> tuple[int, int]:
    """Where the last `wanted` lines of a file begin, and how many lines there are from there on."""
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


def _open_tail(files: list[Path], wanted: int | None, stream: bytes) -> list[BinaryIO]:
    """The files to read, each at the place to begin with."""
    opened: list[BinaryIO] = []
    for path in reversed(files):
        if wanted is not None and wanted <= 0 and opened:
            break
        try:
            file = path.open("rb")
        except OSError:
            continue
        opened.insert(0, file)
        if wanted is not None:
            start, found = tail_start(file, wanted, stream)
            file.seek(start if wanted else file.seek(0, os.SEEK_END))
            wanted -= found
    return opened


async def read_log(file: Path, options: LogOptions) -> AsyncIterator[bytes]:
    """What is there now."""
    printer = LogPrinter(options)
    for part in _open_tail(log_files(file), options.tail_lines, options.stream):
        with part:
            while not printer.full and (data := part.read(CHUNK)):
                if shown := printer.feed(data):
                    yield shown
                # A file never makes anybody wait: others get their turn between two pieces.
                await asyncio.sleep(0)
    if shown := printer.finish():
        yield shown


Ended = Callable[[], Awaitable[bool]]


async def follow_log(file: Path, options: LogOptions, watch: FolderWatch, ended: Ended) -> AsyncIterator[bytes]:
    """What is there and what comes, until the container has ended and everything is read."""
    printer = LogPrinter(options)
    parts = _open_tail(log_files(file), options.tail_lines, options.stream)
    current: BinaryIO | None = None
    try:
        while not printer.full:
            if current is None:
                current = parts.pop(0) if parts else _opened(file)
            over = await ended()
            data = current.read(CHUNK) if current is not None else b""
            if data:
                if shown := printer.feed(data):
                    yield shown
            elif current is not None and (parts or _replaced(file, current)):
                current.close()
                current = None
            elif over:
                break
            else:
                await watch.wait()
        if shown := printer.finish():
            yield shown
    finally:
        for part in (*parts, *([current] if current is not None else [])):
            part.close()


def _opened(file: Path) -> BinaryIO | None:
    try:
        return file.open("rb")
    except OSError:
        return None


def _replaced(file: Path, current: BinaryIO) -> bool:
    """Whether rotation put another file under the name; what was written to the old one is read by then."""
    try:
        there = file.stat()
    except OSError:
        return False
    here = os.fstat(current.fileno())
    return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) and current.tell() >= here.st_size
