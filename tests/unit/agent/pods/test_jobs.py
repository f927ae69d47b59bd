"""Jobs of a pod: one task per name, removed when it ends."""

from __future__ import annotations

import asyncio

from podfit.agent.pods.jobs import Jobs
from podfit.kit.concurrency.tasks import Tasks


async def test_a_job_runs_until_its_work_ends() -> None:
    jobs, tasks, ended = Jobs(), Tasks(), asyncio.Event()

    async def work() -> None:
        await ended.wait()

    jobs.start("stop:c", work(), tasks)
    assert jobs.running("stop:c") and jobs.any_running("stop:") and not jobs.running("hook:c")
    ended.set()
    await jobs.wait("stop:c")
    assert not jobs.running("stop:c")
    await asyncio.sleep(0)
    assert len(jobs) == 0


async def test_a_cancelled_job_leaves_its_name_to_the_next() -> None:
    jobs, tasks = Jobs(), Tasks()

    async def work() -> None:
        await asyncio.Event().wait()

    jobs.start("stop:c", work(), tasks)
    await asyncio.sleep(0)
    jobs.cancel("stop:")
    jobs.start("stop:c", work(), tasks)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert jobs.running("stop:c") and len(jobs) == 1
    await tasks.stop()
