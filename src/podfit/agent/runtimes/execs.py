"""Runs a command to its end on a runtime that only has streams."""

from __future__ import annotations

import asyncio

from podfit.agent.runtimes.base import ExecStream, Runtime

MOST_OUTPUT = 10 * 1024
_STDERR = 2


async def exec_sync(
    runtime: Runtime, container_id: str, command: list[str], timeout_s: float
) -> tuple[int, bytes, bytes]:
    async with asyncio.timeout(timeout_s or None):
        stream = await runtime.exec(container_id, list(command))
        try:
            output, errors = await _collect(stream)
            return await stream.wait(), output, errors
        finally:
            await stream.close()


async def _collect(stream: ExecStream) -> tuple[bytes, bytes]:
    """Collects output and errors; both together are bounded."""
    output, errors = b"", b""
    while (piece := await stream.read()) is not None:
        channel, data = piece
        kept = data[: max(0, MOST_OUTPUT - len(output) - len(errors))]
        if channel == _STDERR:
            errors += kept
        else:
            output += kept
    return output, errors
