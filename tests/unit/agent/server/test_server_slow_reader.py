"""A client that reads slowly blocks the process; the agent does not buffer its output."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from podfit.agent.runtimes.process.streams import CHUNK, ProcessExec

PIPE_BYTES = 1 << 16


async def test_unread_output_stays_buffered_in_the_process() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    link: Any = None
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    stream = ProcessExec(link, "key", ended, -1, (-1, reading, -1))
    written = 0
    for _ in range(200):
        try:
            written += os.write(writing, b"x" * 4096)
        except BlockingIOError:
            # One iteration of the loop reads as much as it can.
            await asyncio.sleep(0.001)
    assert written <= PIPE_BYTES + 2 * CHUNK
    os.close(writing)
    taken = 0
    while (piece := await asyncio.wait_for(stream.read(), 10.0)) is not None:
        assert piece[0] == 1
        taken += len(piece[1])
    assert taken == written
    ended.set_result(0)
    await stream.close()
