"""The engine retries failures and honours results."""

import asyncio

from podfit.api.status import conflict
from podfit.kit.backoff import Backoff
from podfit.kit.clock import FakeClock
from podfit.kit.tasks import Tasks
from podfit.reconcile import DONE, Again, Engine, Result


async def test_a_failing_key_is_tried_again_until_it_succeeds() -> None:
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
        return Again(30.0, "testing") if len(times) == 1 else DONE

    engine: Engine[str] = Engine("test", reconcile, clock=clock)
    tasks.start(engine.run())
    engine.add("a")
    await clock.advance(0)
    await clock.advance(40)
    assert times == [0.0, 30.0]
    await tasks.stop()
