"""A container's log file in CRI's format: `<RFC 3339 with nanoseconds> <stream> <F|P> <text>`.

Lines are full (F); one that is longer than 16 KiB is written in parts (P) so that a program without line ends cannot
make the keeper's memory grow.
"""

from __future__ import annotations

import os
import time

PART_BYTES = 16384


def stamp(nanos: int) -> bytes:
    seconds, rest = divmod(nanos, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ" % rest


class LogFile:
    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1
        self._rest = {"stdout": b"", "stderr": b""}

    def add(self, stream: str, data: bytes) -> None:
        """Takes what came out of the container; whole lines are on disk when this returns."""
        lines = (self._rest[stream] + data).split(b"\n")
        rest = lines.pop()
        head = stamp(time.time_ns()) + b" " + stream.encode()
        out: list[bytes] = []
        for line in lines:
            while len(line) > PART_BYTES:
                out += (head, b" P ", line[:PART_BYTES], b"\n")
                line = line[PART_BYTES:]
            out += (head, b" F ", line, b"\n")
        while len(rest) >= PART_BYTES:
            out += (head, b" P ", rest[:PART_BYTES], b"\n")
            rest = rest[PART_BYTES:]
        self._rest[stream] = rest
        self._write(b"".join(out))

    def finish(self) -> None:
        """The container is gone: a last line without an end is a line all the same."""
        for stream, rest in self._rest.items():
            if rest:
                self._write(stamp(time.time_ns()) + b" " + stream.encode() + b" F " + rest + b"\n")
                self._rest[stream] = b""
        self.close()

    def reopen(self) -> None:
        """After a rename by log rotation: the next line goes to a new file of the old name."""
        self.close()
        self._open()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(self.path, flags, 0o640)

    def _write(self, data: bytes) -> None:
        """A full disk or a removed folder loses lines; it must never stop the container or the keeper."""
        if not data:
            return
        try:
            if self._descriptor < 0:
                self._open()
            os.write(self._descriptor, data)
        except OSError:
            self.close()
