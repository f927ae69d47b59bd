"""The context of a pass over a pod."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.pods import termination


async def test_what_starts_next_is_decided_once_a_pass(lab: Lab) -> None:
    record = lab.add()
    pod = await lab.observed(record)
    assert pod.next.start == ("c",)
    await lab.run(record.pod)
    await pod.observe()
    assert pod.next.start == ("c",), "by the first snapshot"
    assert pod.initialized


async def test_a_pod_terminates_before_it_is_gone(lab: Lab) -> None:
    record = lab.add()
    pod = lab.context(record)
    assert not pod.terminating and not pod.gone
    termination.evicted(record, "Evicted", "x", 1.0, True)
    assert pod.terminating and not pod.gone
    termination.gone(record)
    assert pod.gone
