"""Streams and logs of fake containers: the output of their programs, and connections that a test answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime

from podfit.agent.runtimes.fake.node import FakeContainer
from podfit.agent.runtimes.fake.program import Program
from podfit.kit.clock import Clock

_CHANNELS = {"stdout": 1, "stderr": 2}


def write_log(container: FakeContainer, elapsed: float) -> list[tuple[int, bytes]]:
    """Appends the program's new output to its log, in CRI's format; returns it for attached clients."""
    said: list[tuple[int, bytes]] = []
    lines: list[str] = []
    while container.said < len(container.program.output) and container.program.output[container.said][0] <= elapsed:
        after, stream, text = container.program.output[container.said]
        container.said += 1
        said.append((_CHANNELS[stream], text.encode() + b"\n"))
        moment = datetime.fromtimestamp(container.started_at + after, UTC)
        lines.append(f"{moment:%Y-%m-%dT%H:%M:%S.%f}000Z {stream} F {text}\n")
    if lines:
        try:
            container.config.log_file.parent.mkdir(parents=True, exist_ok=True)
            with container.config.log_file.open("a") as log:
                log.writelines(lines)
        except OSError:
            # A log that cannot be written does not stop a container.
            return said
    return said


class FakeStream:
    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._echo = False
        self._task: asyncio.Task[None] | None = None
        self.size: tuple[int, int] | None = None

    @classmethod
    def of_program(cls, program: Program, command: list[str], stdin: bool, clock: Clock) -> FakeStream:
        """The streams of an exec. `cat` echoes its input."""
        stream = cls()
        if command[0] == "cat" and stdin:
            stream._echo = True
            return stream
        for _, name, text in program.output:
            stream.feed(_CHANNELS[name], text.encode() + b"\n")
        if program.runs_s == 0.0:
            stream.finish(program.code)
        elif program.runs_s != math.inf:
            stream._task = asyncio.get_running_loop().create_task(stream._run(program, clock))
        return stream

    async def _run(self, program: Program, clock: Clock) -> None:
        await clock.sleep(program.runs_s)
        self.finish(program.code)

    def feed(self, channel: int, data: bytes) -> None:
        self._queue.put_nowait((channel, data))

    def finish(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)
            self._queue.put_nowait(None)

    async def read(self) -> tuple[int, bytes] | None:
        item = await self._queue.get()
        if item is None:
            self._queue.put_nowait(None)
        return item

    async def write(self, data: bytes) -> None:
        if self._echo:
            self.feed(1, data)

    async def close_stdin(self) -> None:
        if self._echo:
            self.finish(0)

    async def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self.finish(137)


class FakeConnection:
    def __init__(self, handler: Callable[[bytes], bytes]) -> None:
        self._handler = handler
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self._queue.get()

    async def write(self, data: bytes) -> None:
        answer = self._handler(data)
        if answer:
            self._queue.put_nowait(answer)

    async def close_write(self) -> None:
        """Called when the client has closed its input."""
        self._queue.put_nowait(b"")

    async def close(self) -> None:
        self._queue.put_nowait(b"")
