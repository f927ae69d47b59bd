"""The phase of a VM that is being migrated away."""

from __future__ import annotations

import pytest
from tests.unit.agent.lab import Lab, pod

from podfit.agent.migration.departure import Departures
from podfit.agent.phases.containers.migrate import migrate
from podfit.agent.phases.outcome import Stop
from podfit.api.pods.migrations import ANNOTATION
from podfit.reconcile.result import DONE, Requeue


async def test_a_pod_that_is_not_migrated_keeps_running(lab: Lab) -> None:
    assert await migrate(await lab.observed(await lab.run())) == DONE


async def test_a_pod_that_leaves_is_reported_and_nothing_else_is_done(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = pod()
    body["metadata"]["annotations"] = {ANNOTATION: "{}"}
    record = await lab.run(body)
    monkeypatch.setattr(Departures, "leaving", lambda self, record: object())
    monkeypatch.setattr(Departures, "follow", lambda self, record, migration: 7.0)
    outcome = await migrate(await lab.observed(record))
    assert outcome == Stop(Requeue(7.0, "a migration is in progress"))
    assert lab.api.statuses[-1]["phase"] == "Running"
