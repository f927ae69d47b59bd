"""Work off the event loop: small pieces run in place, large ones in a thread while the loop continues."""

from __future__ import annotations

import asyncio
import threading

import pytest

from podfit.kit.concurrency.worker_threads import CLIENT, LARGE, VERY_LARGE, WorkerThreads


async def test_small_work_is_done_in_place() -> None:
    assert await WorkerThreads().run(LARGE - 1, threading.get_ident) == threading.get_ident()


async def test_the_event_loop_is_not_blocked_by_large_work() -> None:
    threads, seen = WorkerThreads(), threading.Event()
    asyncio.get_running_loop().call_soon(seen.set)
    assert await threads.run(LARGE, lambda: seen.wait(30))
    threads.close()


async def test_an_error_of_large_work_is_that_of_the_caller() -> None:
    threads = WorkerThreads()
    with pytest.raises(ZeroDivisionError):
        await threads.run(LARGE, lambda: 1 // 0)
    threads.close()


async def test_large_pieces_are_worked_on_one_after_the_other() -> None:
    threads, running, most = WorkerThreads(), 0, 0

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        running -= 1

    await asyncio.gather(*(threads.run(LARGE, work) for _ in range(50)))
    assert most == 1
    threads.close()


async def test_large_work_does_not_wait_for_very_large_work() -> None:
    threads, over = WorkerThreads(), threading.Event()
    huge = asyncio.ensure_future(threads.run(VERY_LARGE, lambda: over.wait(30)))
    await asyncio.sleep(0)
    assert await threads.run(LARGE, lambda: "done") == "done"
    over.set()
    assert await huge
    threads.close()


async def test_clients_get_the_thread_in_turn() -> None:
    threads, log = WorkerThreads(), list[str]()

    async def ask(client: str) -> None:
        CLIENT.set(client)
        await threads.run(LARGE, lambda: log.append(client))

    await asyncio.gather(*(asyncio.ensure_future(ask(client)) for client in "aaaaab"))
    assert log.index("b") <= 2
    threads.close()


async def test_a_client_that_leaves_gives_the_thread_back() -> None:
    threads, over = WorkerThreads(), threading.Event()
    first = asyncio.ensure_future(threads.run(LARGE, lambda: over.wait(30)))
    second = asyncio.ensure_future(threads.run(LARGE, lambda: "second"))
    third = asyncio.ensure_future(threads.run(LARGE, lambda: "third"))
    await asyncio.sleep(0)
    second.cancel()
    over.set()
    assert await first and await third == "third"
    threads.close()
