"""Queries of a QEMU that does not answer."""

from __future__ import annotations

import asyncio

import pytest

from podfit.vm.machines.queries import Queries, Unanswered

VM, OTHER = "one", "other"


async def test_an_overdue_query_fails_and_no_further_one_is_sent_until_it_is_answered() -> None:
    queries, answer, sent = Queries(answer_s=0.01), asyncio.Event(), []

    async def stuck() -> str:
        sent.append(VM)
        await answer.wait()
        return "late"

    for _ in range(3):
        with pytest.raises(Unanswered, match="QEMU does not respond"):
            await queries.ask(VM, stuck)
    assert sent == [VM]
    assert await queries.ask(OTHER, _prompt) == "prompt"
    answer.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await queries.ask(VM, _prompt) == "prompt"


async def _prompt() -> str:
    return "prompt"


async def test_a_failed_query_raises_its_own_error() -> None:
    async def failing() -> str:
        raise ValueError("no such domain")

    with pytest.raises(ValueError, match="no such domain"):
        await Queries().ask(VM, failing)


async def test_a_late_failure_after_the_caller_left_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    queries, answer = Queries(answer_s=0.01), asyncio.Event()

    async def failing() -> str:
        await answer.wait()
        raise ValueError("gone")

    with pytest.raises(Unanswered):
        await queries.ask(VM, failing)
    answer.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await queries.ask(VM, _prompt) == "prompt" and not caplog.records
