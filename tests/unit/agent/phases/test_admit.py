"""The phase that lets a pod pass once its allocation is on disk."""

from __future__ import annotations

import errno

import pytest
from tests.unit.agent.lab import Lab, pod

from podfit.agent.phases.admit import admit
from podfit.agent.phases.outcome import Stop
from podfit.reconcile.result import DONE


async def test_an_admitted_pod_passes_once_its_allocation_is_on_disk(lab: Lab) -> None:
    record = lab.add()
    assert not lab.ledger.is_durable(record.uid)
    assert await admit(lab.context(record)) == DONE
    assert lab.ledger.is_durable(record.uid)


async def test_a_rejected_pod_is_reported_as_failed_and_goes_no_further(lab: Lab) -> None:
    record = lab.add(pod(cpu="64"))
    assert record.rejected is not None and record.rejected[0] == "OutOfcpu"
    assert await admit(lab.context(record)) == Stop()
    assert lab.api.statuses[-1]["phase"] == "Failed"


async def test_a_pod_whose_allocation_cannot_be_written_waits_and_an_event_reports_the_reason(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    record = lab.add()
    monkeypatch.setattr(lab.ledger, "flush", full)
    with pytest.raises(OSError):
        await admit(lab.context(record))
    assert lab.events.reasons == ["FailedToMakePodDataDirectories"]
