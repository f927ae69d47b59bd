"""The phase that follows probes and power states."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

from podfit.agent.phases.containers.probe import probe
from podfit.reconcile.result import DONE


async def test_the_probes_of_what_runs_are_begun(lab: Lab) -> None:
    body = pod()
    body["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["x"]}}
    record = await lab.run(body)
    record.probes = None
    assert await probe(await lab.observed(record)) == DONE
    assert record.probes is not None
    lab.parts.containers.probing.stop(record)
