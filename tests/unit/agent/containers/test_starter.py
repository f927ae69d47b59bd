"""Starting containers: in order, with the allocated size, and again after a pause when it fails."""

from __future__ import annotations

from typing import Any

from tests.unit.agent.lab import Lab, pod

from podfit.agent.pods.observe import Snapshot, observe
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import EXITED, CannotRun, RuntimeFailure


async def with_sandbox(lab: Lab, body: Any = None) -> tuple[PodRecord, Snapshot]:
    record = lab.add(body)
    await lab.parts.containers.sandboxes.create(record, await observe(record, lab.ledger, lab.runtime))
    return record, await observe(record, lab.ledger, lab.runtime)


async def start(lab: Lab, record: PodRecord, snapshot: Snapshot, *names: str) -> float:
    return await lab.parts.containers.starter.start(record, snapshot, names)


async def test_a_container_starts_with_its_allocated_size_which_is_recorded(lab: Lab) -> None:
    record, snapshot = await with_sandbox(lab)
    await start(lab, record, snapshot, "c")
    (state,) = await lab.runtime.pods()
    limits = await lab.runtime.container_limits(state.containers[0].id)
    assert (limits.cpu_quota_us, limits.memory_bytes) == (10_000, 64 << 20)
    assert lab.ledger.actuated("u").containers["c"]["limits"] == {"cpu": "100m", "memory": "64Mi"}
    assert {"Created", "Started"} <= set(lab.events.reasons)


async def test_a_container_that_cannot_run_waits_with_its_reason_and_a_pause(lab: Lab) -> None:
    record, snapshot = await with_sandbox(lab)
    lab.runtime.fail_next("start_container", CannotRun("no such program", "RunContainerError"))
    pause = await start(lab, record, snapshot, "c")
    assert pause > 0 and record.waiting.get("c") == ("RunContainerError", "no such program")
    assert await lab.parts.containers.starter.start(record, snapshot, ("c",)) > 0, "held back"


async def test_another_failure_is_reported_as_a_creation_that_failed(lab: Lab) -> None:
    record, snapshot = await with_sandbox(lab)
    lab.runtime.fail_next("create_container", RuntimeFailure("broken"))
    await start(lab, record, snapshot, "c")
    assert record.waiting.get("c") == ("CreateContainerError", "broken")
    assert ("Failed", "Error: broken") in lab.events.kept


async def test_the_attempt_after_a_container_that_ended_is_the_next(lab: Lab) -> None:
    record = await lab.run()
    (state,) = await lab.runtime.pods()
    await lab.runtime.stop_container(state.containers[0].id, 0.0)
    snapshot = await observe(record, lab.ledger, lab.runtime)
    assert snapshot.seen["c"].last is not None and snapshot.seen["c"].last.state == EXITED
    await start(lab, record, snapshot, "c")
    state = (await lab.runtime.pods())[0]
    assert sorted(container.attempt for container in state.containers)[-1] == 1


async def test_an_attempt_that_the_runtime_has_forgotten_is_counted_from_the_status(lab: Lab) -> None:
    body = pod()
    body["status"]["containerStatuses"] = [{"name": "c", "restartCount": 4, "containerID": "x://y"}]
    record, snapshot = await with_sandbox(lab, body)
    await start(lab, record, snapshot, "c")
    assert [container.attempt for container in (await lab.runtime.pods())[0].containers] == [5]
