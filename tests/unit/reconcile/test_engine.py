"""The engine retries failures and honours results."""

import asyncio

import pytest

from podfit.api.status import ApiError, conflict
from podfit.kit.backoff import Backoff
from podfit.kit.clock import FakeClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.reconcile import DONE, Engine, Requeue, Result


async def test_a_failing_key_is_retried_until_it_succeeds() -> None:
    tries: list[str] = []
    done = asyncio.Event()

    async def reconcile(key: str) -> Result:
        tries.append(key)
        if len(tries) == 1:
            raise conflict("pods", key, "changed")
        if len(tries) == 2:
            raise RuntimeError("broken")
        done.set()
        return DONE

    clock, tasks = FakeClock(), Tasks()
    engine: Engine[str] = Engine("test", reconcile, clock=clock, backoff=Backoff(1.0, 10.0))
    tasks.start(engine.run())
    engine.add("a")
    for _ in range(5):
        await clock.advance(10)
    assert done.is_set() and tries == ["a"] * 3
    await tasks.stop()


async def test_again_schedules_the_key_for_later() -> None:
    times: list[float] = []
    clock, tasks = FakeClock(), Tasks()

    async def reconcile(key: str) -> Result:
        times.append(clock.monotonic())
        return Requeue(30.0, "testing") if len(times) == 1 else DONE

    engine: Engine[str] = Engine("test", reconcile, clock=clock)
    tasks.start(engine.run())
    engine.add("a")
    await clock.advance(0)
    await clock.advance(40)
    assert times == [0.0, 30.0]
    await tasks.stop()


async def test_refusals_are_logged_with_the_object_s_name_unless_its_namespace_is_being_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    going = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}

    async def reconcile(key: tuple[str, str]) -> Result:
        raise ApiError(403, "Forbidden", "no", going if key[0] == "going" else None)

    clock, tasks = FakeClock(), Tasks()
    engine: Engine[tuple[str, str]] = Engine("jobs", reconcile, clock=clock)
    tasks.start(engine.run())
    for key in (("going", "a"), ("default", "b"), ("", "c")):
        engine.add(key)
    await clock.advance(0)
    await tasks.stop()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "jobs default/b: no",
        "jobs c: no",
    ]
