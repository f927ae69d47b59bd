"""Snapshots: which containers run, have exited, and are ready."""

from __future__ import annotations

from typing import Any

from tests.unit.agent.lab import Lab, pod

from podfit.agent.pods.observe import actual_limits, observe


async def test_a_pod_that_never_ran_has_neither_sandbox_nor_running_containers(lab: Lab) -> None:
    found = await observe(lab.add(), lab.ledger, lab.runtime)
    assert not found.sandbox and found.running == {} and found.seen["c"].last is None


async def test_a_running_container_without_probes_is_started_and_ready(lab: Lab) -> None:
    found = await observe(await lab.run(), lab.ledger, lab.runtime)
    assert found.sandbox and found.seen["c"].started and found.seen["c"].ready


async def test_before_its_first_probe_a_container_has_the_readiness_reported_by_the_api(lab: Lab) -> None:
    body: Any = pod()
    body["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["x"]}}
    record = await lab.run(body)
    lab.parts.containers.probing.suspend(record)
    assert not (await observe(record, lab.ledger, lab.runtime)).seen["c"].ready
    assert record.state is not None
    known = {"name": "c", "containerID": f"fake://{record.state.containers[0].id}", "ready": True, "started": True}
    record.pod = {**record.pod, "status": {"containerStatuses": [known]}}
    assert (await observe(record, lab.ledger, lab.runtime)).seen["c"].ready


async def test_a_port_conflict_makes_a_running_container_unready(lab: Lab) -> None:
    record = await lab.run()
    record.port_conflicts["c"] = "in use"
    seen = (await observe(record, lab.ledger, lab.runtime)).seen["c"]
    assert (seen.ready, seen.conflict) == (False, "in use")


async def test_a_container_stopped_for_a_resize_waits_instead_of_having_ended(lab: Lab) -> None:
    record = await lab.run()
    assert record.state is not None
    container_id = record.state.containers[0].id
    await lab.runtime.stop_container(container_id, 0.0)
    assert (await observe(record, lab.ledger, lab.runtime)).seen["c"].waiting is None
    record.restarting = {"c": container_id}
    assert (await observe(record, lab.ledger, lab.runtime)).seen["c"].waiting == ("ContainerCreating", "")


async def test_actual_limits_are_those_of_the_kernel(lab: Lab) -> None:
    found = await observe(await lab.run(), lab.ledger, lab.runtime)
    limits, level = await actual_limits(lab.runtime, found)
    assert limits["c"].memory_bytes == 64 << 20 and level is not None
    await lab.runtime.remove_pod("u")
    assert await actual_limits(lab.runtime, found) == ({}, None)
