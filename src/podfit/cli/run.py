"""Runs a component until a signal stops it: the loop, the signals, the logs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn

from podfit.kit.clock import RealClock
from podfit.kit.process import garbage
from podfit.kit.process.huge_pages import keep_in_huge_pages
from podfit.kit.process.logs import setup_logs


def run(main: Coroutine[Any, Any, None], verbosity: int = 0) -> None:
    """Runs `main` on uvloop."""
    import uvloop

    setup_logs(verbosity)
    garbage.collect_rarely()
    uvloop.run(main)


def run_with_forks(main: Coroutine[Any, Any, None], verbosity: int = 0) -> None:
    """Runs `main` on asyncio's own loop, for a process in which a library forks in threads. While uvloop starts a
    process, every forked child first waits for the GIL, which another thread holds: such a child never executes its
    program."""
    setup_logs(verbosity)
    garbage.collect_rarely()
    asyncio.run(main)


def finish(main: Coroutine[Any, Any, int], verbosity: int = 0) -> NoReturn:
    """Runs `main` and ends the command with the exit code it returns."""
    import typer
    import uvloop

    setup_logs(verbosity)
    raise typer.Exit(uvloop.run(main))


async def until_stopped(work: Awaitable[None] | None = None) -> None:
    """Returns at SIGINT or SIGTERM, or raises the exception of `work`."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    waiting = asyncio.ensure_future(stopped.wait())
    running = asyncio.ensure_future(work) if work is not None else None
    try:
        await asyncio.wait({waiting, running} if running else {waiting}, return_when=asyncio.FIRST_COMPLETED)
        if running is not None and running.done():
            running.result()
    finally:
        waiting.cancel()
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def serve(start: Callable[[], Awaitable[str]], stop: Callable[[], Awaitable[None]]) -> None:
    """Starts a component, prints the ready line that `start` returns, waits for a signal (also during the start), and
    stops it."""

    async def work() -> None:
        ready = await start()
        garbage.freeze_existing_objects()
        print(ready, flush=True)
        await keep_in_huge_pages(RealClock())

    try:
        await until_stopped(work())
    finally:
        await stop()
