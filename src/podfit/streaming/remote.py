"""Exec and attach between a container's streams and a remote client, over any transport.

A `RemoteEnd` is the client's side: WebSocket channels or SPDY streams. It receives the exit code as a Status.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from podfit.streaming.ends import ExecStream, StreamFailure

log = logging.getLogger(__name__)

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)


class RemoteEnd(Protocol):
    async def receive(self) -> tuple[int, bytes | None] | None:
        """The next (channel, data) from the client; data is None if the channel was closed; None if the client
        disconnected.
        """

    async def send(self, channel: int, data: bytes) -> None: ...

    async def finish(self, status: dict[str, Any]) -> None:
        """Reports the result and closes."""


def exit_status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure_status(why: str) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {why}",
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    }


async def converse(end: RemoteEnd, stream: ExecStream, wanted: frozenset[int], attached: bool = False) -> None:
    """Copies bytes in both directions until the process ends or the client disconnects; then closes the stream."""
    outward = asyncio.ensure_future(_outward(end, stream, wanted))
    inward = asyncio.ensure_future(_inward(end, stream))
    try:
        await asyncio.wait((outward, inward), return_when=asyncio.FIRST_COMPLETED)
        if outward.done():
            # Attach does not report how the container ends: the pod's status does.
            status = exit_status(0) if attached else await _status(stream)
            with suppress(ConnectionError):
                await end.finish(status)
            outward.result()
    except ConnectionError:
        log.debug("the client of an exec is gone")
    finally:
        for task in (outward, inward):
            task.cancel()
        await asyncio.gather(outward, inward, return_exceptions=True)
        await stream.close()


async def _status(stream: ExecStream) -> dict[str, Any]:
    try:
        return exit_status(await stream.wait())
    except StreamFailure as error:
        # Some runtimes report a command that could not be started only at this point.
        return failure_status(f"error executing command in container: {error}")


async def _outward(end: RemoteEnd, stream: ExecStream, wanted: frozenset[int]) -> None:
    while (piece := await stream.read()) is not None:
        channel, data = piece
        if channel in wanted:
            await end.send(channel, data)


async def _inward(end: RemoteEnd, stream: ExecStream) -> None:
    while (message := await end.receive()) is not None:
        channel, data = message
        if channel == STDIN and data is None:
            await stream.close_stdin()
        elif channel == STDIN and data:
            await stream.write(data)
        elif channel == RESIZE and data:
            await _resize(stream, data)


async def _resize(stream: ExecStream, data: bytes) -> None:
    try:
        size = msgspec.json.decode(data)
        await stream.resize(int(size["Width"]), int(size["Height"]))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        log.debug("a terminal's size that cannot be read: %r", data[:100])
