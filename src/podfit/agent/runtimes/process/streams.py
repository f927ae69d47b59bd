"""The byte streams of exec, attach and port-forward, over pipes, a terminal, or a socket to the keeper."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import socket
import struct
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress

from podfit.agent.runtimes.process.link import KeeperFailed, Link

CHUNK = 65536
PACKET = 16384


class ReadEnd:
    """Reads a descriptor piece by piece. Reading waits for data and never polls.

    After each piece it pauses until `more`: unread data stays in the pipe, which blocks the writer.
    """

    def __init__(self, descriptor: int, took: Callable[[bytes], None]) -> None:
        self._descriptor, self._took = descriptor, took
        os.set_blocking(descriptor, False)
        self.more()

    def more(self) -> None:
        asyncio.get_running_loop().add_reader(self._descriptor, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            # EIO: the last process that had the terminal open has closed it.
            data = b""
        self.stop()
        self._took(data)

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)


async def write_all(descriptor: int, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            ready = asyncio.Event()
            loop.add_writer(descriptor, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_writer(descriptor)
        except BrokenPipeError:
            return


async def end_exec(link: Link, key: str) -> None:
    """Ends an exec, also a cancelled one, for example after a probe's timeout: the keeper may have started it
    already."""
    with suppress(KeeperFailed):
        await link.ask("exec_signal", key=key, signal=int(signal.SIGKILL))


class ProcessExec:
    """An exec: our ends of its pipes (or of its terminal), and the exit code that the keeper will report."""

    def __init__(
        self, link: Link, key: str, ended: asyncio.Future[int], terminal: int, pipes: tuple[int, int, int]
    ) -> None:
        self._link, self._key, self._ended = link, key, ended
        self._terminal = terminal
        self._input, *outputs = pipes
        self._queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._open = {channel: fd for channel, fd in enumerate(outputs, start=1) if fd >= 0}
        self._readers = {channel: ReadEnd(fd, self._receiver(channel)) for channel, fd in self._open.items()}
        if self._input >= 0:
            os.set_blocking(self._input, False)

    def _receiver(self, channel: int) -> Callable[[bytes], None]:
        return lambda data: self._queue.put_nowait((channel, data))

    async def read(self) -> tuple[int, bytes] | None:
        while self._open or not self._queue.empty():
            channel, data = await self._queue.get()
            if data:
                if channel in self._open:
                    self._readers[channel].more()
                return channel, data
            descriptor = self._open.pop(channel, None)
            if descriptor is not None and descriptor != self._terminal:
                os.close(descriptor)
        return None

    async def write(self, data: bytes) -> None:
        if self._input >= 0:
            await write_all(self._input, data)

    async def close_stdin(self) -> None:
        if self._input < 0:
            return
        if self._input == self._terminal:
            # A terminal has no end of input except the EOF character.
            await write_all(self._terminal, b"\x04")
        else:
            os.close(self._input)
            self._input = -1

    async def resize(self, columns: int, rows: int) -> None:
        if self._terminal >= 0:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        if not self._ended.done():
            await end_exec(self._link, self._key)
        for channel, descriptor in list(self._open.items()):
            self._readers[channel].stop()
            if descriptor != self._terminal:
                os.close(descriptor)
            self._queue.put_nowait((channel, b""))
        self._open.clear()
        if self._input >= 0 and self._input != self._terminal:
            os.close(self._input)
        self._input = -1
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1


class ProcessAttach:
    """The output of a running container from now on, in packets of the keeper: a channel number, then bytes."""

    def __init__(
        self, ours: socket.socket, resize: Callable[[int, int], Awaitable[None]], ended: Callable[[], Awaitable[int]]
    ) -> None:
        ours.setblocking(False)
        self._socket, self._resize, self._ended = ours, resize, ended

    async def read(self) -> tuple[int, bytes] | None:
        try:
            packet = await asyncio.get_running_loop().sock_recv(self._socket, 2 * CHUNK)
        except OSError:
            return None
        return (packet[0], packet[1:]) if packet else None

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        with suppress(BrokenPipeError, ConnectionResetError):
            for at in range(0, len(data), PACKET):
                await loop.sock_sendall(self._socket, data[at : at + PACKET])

    async def close_stdin(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def resize(self, columns: int, rows: int) -> None:
        await self._resize(columns, rows)

    async def wait(self) -> int:
        return await self._ended()

    async def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class TcpStream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(CHUNK)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close_write(self) -> None:
        with suppress(OSError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


def console_pair() -> tuple[socket.socket, tuple[int, ...]]:
    """Our end and theirs of the socket over which the terminal created inside the container is sent."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return ours, (theirs.detach(),)


def pipes(stdin: bool) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    out, their_out = os.pipe()
    errors, their_errors = os.pipe()
    if not stdin:
        return (-1, out, errors), (os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), their_out, their_errors)
    their_input, entry = os.pipe()
    return (entry, out, errors), (their_input, their_out, their_errors)
