"""Probes begin with the containers they probe, and end with them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.unit.agent.lab import Lab, pod

from podfit.agent.probes.probes import Probes
from podfit.agent.runtimes.values import Machine


def probed() -> Any:
    body = pod()
    body["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["x"]}, "failureThreshold": 1}
    return body


async def test_a_pod_without_probes_has_no_prober(lab: Lab) -> None:
    record = await lab.run()
    assert record.probes is None


async def test_a_container_that_fails_its_liveness_probe_is_stopped(lab: Lab, monkeypatch: Any) -> None:
    record = await lab.run(probed())
    pod_, probing = await lab.observed(record), lab.parts.containers.probing
    assert record.probes is not None
    monkeypatch.setattr(Probes, "unhealthy", lambda self, running: list(running))
    monkeypatch.setattr(Probes, "failed_kind", lambda self, name: "liveness")
    probing.follow(record, pod_.snapshot)
    assert ("Killing", "Container c failed liveness probe, will be restarted") in lab.events.kept
    probing.stop(record)


async def test_a_virtual_machine_that_is_off_is_not_probed(lab: Lab, monkeypatch: Any) -> None:
    record = await lab.run(probed())
    found, followed = (await lab.observed(record)).snapshot, list[Any]()
    monkeypatch.setattr(Probes, "follow", lambda self, running: followed.append(set(running)))
    for power in ("Shutdown", "Running"):
        running = {"c": replace(found.running["c"], machine=Machine(power))}
        lab.parts.containers.probing.follow(record, replace(found, running=running))
    assert followed == [set(), {"c"}]
    lab.parts.containers.probing.stop(record)


async def test_a_suspended_pod_begins_with_new_probes(lab: Lab) -> None:
    record = await lab.run(probed())
    lab.parts.containers.probing.suspend(record)
    assert record.probes is None
