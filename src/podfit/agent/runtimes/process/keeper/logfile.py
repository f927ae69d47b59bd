"""A container's log file in CRI's format: `<RFC 3339 with nanoseconds> <stream> <F|P> <text>`.

Lines are full (F). A line longer than 16 KiB is written in parts (P), so that a program without line ends cannot make
the keeper's memory grow. A last line without a line end is a part, too. The size of a log is enforced with each write:
before a file would exceed `max_bytes` it is renamed to `<name>.<date>-<time>.<nanoseconds>` and the oldest files beyond
`max_files` (the current one included) are deleted, so that all files of a container never hold more than `max_bytes *
max_files`.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator, Sequence

PART_BYTES = 16384
MAX_BYTES, MAX_FILES = 10 << 20, 5


def stamp(nanos: int) -> bytes:
    seconds, rest = divmod(nanos, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % rest


class LogFile:
    def __init__(self, path: str, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> None:
        """A negative `max_bytes` disables rotation."""
        self.path = path
        self._max_bytes, self._max_files = max_bytes, max_files
        self._descriptor = -1
        self._size = 0
        self._rest = {"stdout": b"", "stderr": b""}
        self._dropped = 0
        """Entries that could not be written since the last success."""
        self._problem = ""

    def add(self, stream: str, data: bytes) -> None:
        """Adds output of the container; complete lines are in the file when this returns."""
        lines = (self._rest[stream] + data).split(b"\n")
        rest = lines.pop()
        head = stamp(time.time_ns()) + b" " + stream.encode()
        full, part = head + b" F ", head + b" P "
        out: list[bytes] = []
        for line in lines:
            while len(line) > PART_BYTES:
                out.append(b"%b%b\n" % (part, line[:PART_BYTES]))
                line = line[PART_BYTES:]
            out.append(b"%b%b\n" % (full, line))
        while len(rest) >= PART_BYTES:
            out.append(b"%b%b\n" % (part, rest[:PART_BYTES]))
            rest = rest[PART_BYTES:]
        self._rest[stream] = rest
        self._write(out)

    def finish(self) -> None:
        """The container has exited: an unterminated last line stays a partial entry, which readers print without a line
        end."""
        for stream, rest in self._rest.items():
            if rest:
                self._write([stamp(time.time_ns()) + b" " + stream.encode() + b" P " + rest + b"\n"])
                self._rest[stream] = b""
        self._close()

    def _write(self, entries: list[bytes]) -> None:
        """Writes entries. A full disk or a missing folder loses entries; it never stops the container or the keeper."""
        if not entries:
            return
        left = len(entries)
        try:
            if self._descriptor < 0:
                self._open()
            if self._dropped:
                # Written only together with the next entry: the message about failed writes must not use the last free
                # bytes each time.
                entries[0] = self._gap() + entries[0]
            for group in self._groups(entries):
                self._append(b"".join(group))
                self._dropped, left = 0, left - len(group)
        except OSError as error:
            self._dropped += left
            self._problem = error.strerror or str(error)
            self._close()

    def _gap(self) -> bytes:
        text = f"podfit: {self._dropped} lines of output were lost, the log could not be written: {self._problem}"
        return stamp(time.time_ns()) + b" stderr F " + text.encode() + b"\n"

    def _groups(self, entries: list[bytes]) -> Iterator[list[bytes]]:
        """Groups entries by the file to which they are written; usually there is one."""
        if self._room() >= sum(map(len, entries)):
            yield entries
            return
        group: list[bytes] = []
        room = self._room()
        for entry in entries:
            if group and room < len(entry):
                yield group
                group, room = [], self._max_bytes
            group.append(entry)
            room -= len(entry)
        yield group

    def _room(self) -> float:
        return self._max_bytes - self._size if self._max_bytes >= 0 else math.inf

    def _append(self, data: bytes) -> None:
        if self._size and self._room() < len(data):
            self._rotate()
        try:
            written = os.write(self._descriptor, data)
            while written < len(data):
                # A disk that fills up accepts part of a write, and reports the error on the next one.
                written += os.write(self._descriptor, data[written:])
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def _rotate(self) -> None:
        """Rotates the files. Deletes first, which frees the space for the new entries on a full disk."""
        folder, name = os.path.split(self.path)
        old = sorted(file for file in os.listdir(folder) if file.startswith(name + "."))
        for surplus in old[: max(0, len(old) - max(0, self._max_files - 2))]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, surplus))
        os.rename(self.path, os.path.join(folder, rotated_name(name, old)))
        self._close()
        self._open()

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o640)
        self._size = os.fstat(self._descriptor).st_size
        # A keeper that was killed on a full disk may have left a partial entry.
        end = os.pread(self._descriptor, 2 * PART_BYTES, max(0, self._size - 2 * PART_BYTES))
        if torn := len(end) - (end.rfind(b"\n") + 1):
            self._size -= torn
            os.ftruncate(self._descriptor, self._size)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def rotated_name(name: str, old: Sequence[str]) -> str:
    """A name that sorts after all existing ones, even if the clock was set back."""
    seconds, nanos = divmod(time.time_ns(), 1_000_000_000)
    new = f"{name}.{time.strftime('%Y%m%d-%H%M%S', time.gmtime(seconds))}.{nanos:09d}"
    if old and new <= old[-1]:
        head, _, number = old[-1].rpartition(".")
        new = f"{head}.{int(number) + 1:09d}" if number.isdecimal() else f"{old[-1]}.000000001"
    return new
