"""Sandboxes: created once with the pod's limits, recreated when lost."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.agent.lab import Lab, pod

from podfit.agent.furnish.containers import ContainerMaker, VolumeProblem
from podfit.agent.furnish.volumes.volumes import BadVolume
from podfit.agent.pods.observe import observe
from podfit.agent.runtimes.values import RuntimeFailure


async def test_the_cgroup_has_the_allocated_limits_and_they_are_recorded_as_actuated(lab: Lab) -> None:
    level = {"limits": {"cpu": "1", "memory": "128Mi"}, "requests": {"cpu": "1", "memory": "128Mi"}}
    record = lab.add(pod(resources=level))
    await lab.parts.containers.sandboxes.create(record, await observe(record, lab.ledger, lab.runtime))
    assert (await lab.runtime.pod_limits("u")).memory_bytes == 128 << 20
    assert lab.ledger.actuated("u").pod == level


async def test_a_sandbox_that_is_alive_is_not_changed(lab: Lab) -> None:
    record = await lab.run()
    (before,) = await lab.runtime.pods()
    await lab.parts.containers.sandboxes.create(record, await observe(record, lab.ledger, lab.runtime))
    assert [await lab.runtime.pod("u")] == [before]


async def test_a_lost_sandbox_is_stopped_and_recreated_with_an_event(lab: Lab) -> None:
    record = await lab.run()
    snapshot = await observe(record, lab.ledger, lab.runtime)
    assert snapshot.state is not None
    await lab.parts.containers.sandboxes.create(record, replace(snapshot, state=replace(snapshot.state, alive=False)))
    assert "SandboxChanged" in lab.events.reasons
    state = await lab.runtime.pod("u")
    assert state is not None and state.alive


async def test_a_sandbox_that_cannot_be_created_is_an_event_and_nothing_is_recorded(lab: Lab) -> None:
    record = lab.add()
    lab.runtime.fail_next("run_pod", RuntimeFailure("no room"))
    with pytest.raises(RuntimeFailure):
        await lab.parts.containers.sandboxes.create(record, await observe(record, lab.ledger, lab.runtime))
    assert ("FailedCreatePodSandBox", "Failed to create pod sandbox: no room") in lab.events.kept


async def test_user_namespaces_are_refused(lab: Lab) -> None:
    record = lab.add(pod(hostUsers=False))
    with pytest.raises(RuntimeFailure, match="user namespaces"):
        await lab.parts.containers.sandboxes.create(record, await observe(record, lab.ledger, lab.runtime))


async def test_a_missing_volume_is_reported_and_tried_again_after_a_pause(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def missing(self: ContainerMaker, record: object) -> None:
        raise VolumeProblem(BadVolume(["no such ConfigMap"]))

    record, sandboxes = lab.add(), lab.parts.containers.sandboxes
    with monkeypatch.context() as patched:
        patched.setattr(ContainerMaker, "mount", missing)
        pause = await sandboxes.mount(record)
    assert pause > 0 and ("FailedMount", "no such ConfigMap") in lab.events.kept
    assert await sandboxes.mount(record) == pause, "held back, whatever brings the next pass"
    await lab.clock.advance(pause)
    assert await sandboxes.mount(record) == 0.0
