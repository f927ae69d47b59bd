"""postStart hooks run outside of passes; a failed hook stops its container."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.agent.lab import Lab, pod

from podfit.agent.containers.hooks import Hooks
from podfit.agent.containers.post_start import HOOK
from podfit.agent.runtimes.values import EXITED


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    given = {"error": ""}

    async def run(self: Hooks, *_: Any) -> str:
        return given["error"]

    monkeypatch.setattr(Hooks, "run", run)
    return given


def hooked() -> Any:
    body = pod()
    body["spec"]["containers"][0]["lifecycle"] = {"postStart": {"exec": {"command": ["x"]}}}
    return body


async def test_the_end_of_a_hook_brings_a_pass(lab: Lab, answer: dict[str, str]) -> None:
    record = await lab.run(hooked())
    lab.queue.enqueued.clear()
    await record.jobs.wait(f"{HOOK}c")
    assert lab.queue.enqueued == ["u"] and record.waiting.get("c") is None


async def test_a_failed_hook_stops_the_container_and_reports_the_reason(lab: Lab, answer: dict[str, str]) -> None:
    answer["error"] = "exit status 3"
    record = await lab.run(hooked())
    await lab.clock.advance(40.0)
    assert "FailedPostStartHook" in lab.events.reasons
    assert record.waiting.get("c") == ("PostStartHookError", "exit status 3")
    (state,) = await lab.runtime.pods()
    assert state.containers[0].state == EXITED
