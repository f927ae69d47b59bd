"""Work beside the event loop: small pieces are done in place, large ones in a thread while the loop goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from podfit.kit.aside import LARGE, Aside


async def test_small_work_is_done_in_place() -> None:
    assert await Aside().run(LARGE - 1, threading.get_ident) == threading.get_ident()


async def test_the_loop_goes_on_during_large_work() -> None:
    aside, seen = Aside(), threading.Event()
    asyncio.get_running_loop().call_soon(seen.set)
    assert await aside.run(LARGE, lambda: seen.wait(30))
    aside.close()


async def test_an_error_of_large_work_is_that_of_the_caller() -> None:
    aside = Aside()
    with pytest.raises(ZeroDivisionError):
        await aside.run(LARGE, lambda: 1 // 0)
    aside.close()


async def test_large_pieces_are_worked_on_one_after_the_other() -> None:
    aside, running, most = Aside(), 0, 0

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        running -= 1

    await asyncio.gather(*(aside.run(LARGE, work) for _ in range(50)))
    assert most == 1
    aside.close()
