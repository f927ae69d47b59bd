"""The phase that starts the containers that are due."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.phases.containers.start_containers import start_containers
from podfit.agent.phases.containers.start_sandbox import start_sandbox
from podfit.agent.pods import termination
from podfit.agent.runtimes.values import CannotRun
from podfit.reconcile.result import DONE, Requeue


async def test_started_containers_are_observed_in_the_same_pass(lab: Lab) -> None:
    pod = await lab.observed(lab.add())
    await start_sandbox(pod)
    assert await start_containers(pod) == DONE
    assert list(pod.snapshot.running) == ["c"]


async def test_a_container_that_cannot_start_requests_another_pass(lab: Lab) -> None:
    lab.runtime.fail_next("start_container", CannotRun("no", "RunContainerError"))
    pod = await lab.observed(lab.add())
    await start_sandbox(pod)
    outcome = await start_containers(pod)
    assert isinstance(outcome, Requeue) and outcome.reason == "a container could not be started"


async def test_a_container_that_crashed_twice_waits_for_its_backoff(lab: Lab) -> None:
    record = await lab.run()
    for _ in range(2):
        (state,) = await lab.runtime.pods()
        running = next(container for container in state.containers if container.state == "running")
        await lab.runtime.stop_container(running.id, 0.0)
        outcome = await start_containers(await lab.observed(record))
    assert isinstance(outcome, Requeue) and outcome.reason == "a container waits for its backoff"
    assert record.waiting.reason("c") == "CrashLoopBackOff"


async def test_nothing_starts_in_a_terminating_pod(lab: Lab) -> None:
    record = lab.add()
    pod = await lab.observed(record)
    await start_sandbox(pod)
    termination.evicted(record, "Evicted", "x", 1.0, True)
    assert await start_containers(pod) == DONE
    await pod.observe()
    assert pod.snapshot.running == {}
