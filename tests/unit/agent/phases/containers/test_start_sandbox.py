"""The phase that creates a pod's volumes and sandbox."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.agent.lab import Lab

from podfit.agent.furnish.containers import ContainerMaker, VolumeProblem
from podfit.agent.furnish.volumes.volumes import BadVolume
from podfit.agent.phases.containers.start_sandbox import start_sandbox
from podfit.agent.phases.outcome import Stop
from podfit.agent.pods import termination
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.reconcile.result import DONE, Requeue


async def test_a_pod_without_a_sandbox_gets_one(lab: Lab) -> None:
    pod = await lab.observed(lab.add())
    assert await start_sandbox(pod) == DONE
    assert pod.snapshot.sandbox


async def test_a_terminating_pod_gets_none(lab: Lab) -> None:
    record = lab.add()
    termination.evicted(record, "Evicted", "x", 1.0, True)
    pod = await lab.observed(record)
    assert await start_sandbox(pod) == DONE
    assert await lab.runtime.pods() == []


async def test_a_lost_sandbox_ends_the_pass_and_the_next_one_starts_its_containers(lab: Lab) -> None:
    pod = await lab.observed(await lab.run())
    assert pod.snapshot.state is not None
    pod.snapshot = replace(pod.snapshot, state=replace(pod.snapshot.state, alive=False))
    outcome = await start_sandbox(pod)
    assert isinstance(outcome, Stop) and isinstance(outcome.result, Requeue)
    assert outcome.result.reason == "sandbox recreated"


async def test_a_missing_volume_is_reported_in_the_status(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(self: ContainerMaker, record: object) -> None:
        raise VolumeProblem(BadVolume(["gone"]))

    monkeypatch.setattr(ContainerMaker, "mount", missing)
    outcome = await start_sandbox(await lab.observed(lab.add()))
    assert isinstance(outcome, Stop) and isinstance(outcome.result, Requeue)
    assert outcome.result.reason == "a volume is missing"
    assert "ContainerCreating" in str(lab.api.statuses[-1]["containerStatuses"])


async def test_a_sandbox_that_fails_is_reported_before_the_error_is_raised(lab: Lab) -> None:
    lab.runtime.fail_next("run_pod", RuntimeFailure("no"))
    pod = await lab.observed(lab.add())
    with pytest.raises(RuntimeFailure):
        await start_sandbox(pod)
    assert "ContainerCreating" in str(lab.api.statuses[-1]["containerStatuses"])
