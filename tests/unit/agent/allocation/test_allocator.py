"""Pending resizes: granted, deferred or infeasible; persisted before they count."""

from __future__ import annotations

import errno

import pytest
from tests.unit.agent.lab import Lab, pod, resized


def ask(lab: Lab, uid: str, cpu: str, revision: int = 2) -> None:
    record = lab.records[uid]
    lab.built.tracking.roster.changed(record.pod, resized(record.pod, cpu, revision=revision))


def allocated_cpu(lab: Lab, uid: str) -> str:
    found = lab.ledger.allocated(uid)
    assert found is not None
    return str(found.containers["c"]["requests"]["cpu"])


async def test_a_resize_that_fits_is_granted_and_in_progress(lab: Lab) -> None:
    record = lab.add()
    ask(lab, "u", "200m")
    await lab.clock.advance(0.0)
    assert allocated_cpu(lab, "u") == "200m" and lab.ledger.is_durable("u")
    assert record.resize.pending is None and record.resize.in_progress is not None
    assert lab.events.reasons == ["ResizeStarted"]


async def test_a_resize_larger_than_the_node_is_infeasible_and_leaves_the_allocation(lab: Lab) -> None:
    record = lab.add()
    ask(lab, "u", "64")
    await lab.clock.advance(0.0)
    assert allocated_cpu(lab, "u") == "100m"
    assert record.resize.pending is not None and record.resize.pending.reason == "Infeasible"


async def test_a_deferred_resize_is_granted_when_another_pod_leaves(lab: Lab) -> None:
    record = lab.add(pod("a", cpu="2"))
    lab.add(pod("b", cpu="2"))
    ask(lab, "a", "3")
    await lab.clock.advance(0.0)
    assert record.resize.pending is not None and record.resize.pending.reason == "Deferred"
    lab.built.tracking.roster.changed(lab.records["b"].pod, None)
    await lab.clock.advance(0.0)
    assert allocated_cpu(lab, "a") == "3" and record.resize.pending is None


async def test_an_allocation_that_cannot_be_written_is_reverted_and_tried_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = lab.add()
    await lab.ledger.flush()
    flush = lab.ledger.flush

    async def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lab.ledger, "flush", full)
    ask(lab, "u", "200m")
    await lab.clock.advance(0.0)
    assert allocated_cpu(lab, "u") == "100m" and record.resize.in_progress is None
    monkeypatch.setattr(lab.ledger, "flush", flush)
    await lab.clock.advance(5.0)
    assert allocated_cpu(lab, "u") == "200m"


async def test_a_resize_that_is_reverted_is_no_longer_pending(lab: Lab) -> None:
    record = lab.add()
    ask(lab, "u", "64")
    await lab.clock.advance(0.0)
    ask(lab, "u", "100m", revision=3)
    await lab.clock.advance(0.0)
    assert record.resize.pending is None
