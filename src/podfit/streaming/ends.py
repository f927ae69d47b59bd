"""The endpoints of a client's streams: a process, or a connection into a pod."""

from __future__ import annotations

from typing import Protocol


class StreamFailure(Exception):
    """The base class of errors on the pod's side. The message is shown to users unchanged."""


class ExecStream(Protocol):
    """A running exec or attach. Channels: 1 stdout, 2 stderr."""

    async def read(self) -> tuple[int, bytes] | None:
        """The next chunk of output, None at the end."""

    async def write(self, data: bytes) -> None:
        """Writes to the process's standard input."""

    async def close_stdin(self) -> None: ...

    async def resize(self, columns: int, rows: int) -> None: ...

    async def wait(self) -> int:
        """Waits until the process has exited; returns the exit code."""

    async def close(self) -> None:
        """Closes the stream; an exec'd process is killed."""


class ByteStream(Protocol):
    """A connection into the pod, for port-forward and probes."""

    async def read(self) -> bytes:
        """The next chunk; b"" at the end."""

    async def write(self, data: bytes) -> None: ...

    async def close_write(self) -> None:
        """Half-closes the connection: data from the other side can still be read."""

    async def close(self) -> None: ...
