"""The agent's calls to its runtime are counted and timed under the kubelet's names."""

from __future__ import annotations

from typing import Any

import pytest
from tests import inventory

from podfit.agent.calls import EXEC_SYNC, NAMES, Calls
from podfit.agent.metrics import OPERATIONS, AgentMetrics
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.agent.runtimes.values import LimitsChange, NotFound
from podfit.kit.clock import FakeClock


class Counted:
    def __init__(self) -> None:
        self.clock, self.metrics = FakeClock(), AgentMetrics()
        self.runtime = FakeRuntime(self.clock)
        self.calls = Calls(self.runtime, self.metrics, self.clock)

    def value(self, what: str, operation: str) -> float:
        name = f"kubelet_runtime_operations_{what}"
        return self.metrics.registry.get_sample_value(name, {"operation_type": operation}) or 0.0


async def test_a_call_that_works_counts_as_an_operation_and_no_error() -> None:
    counted = Counted()
    assert await counted.calls.counted().pods() == []
    assert counted.value("total", "list_podsandbox") == 1
    assert counted.value("duration_seconds_count", "list_podsandbox") == 1
    assert counted.value("errors_total", "list_podsandbox") == 0


async def test_a_call_that_fails_counts_as_an_operation_and_an_error() -> None:
    counted = Counted()
    with pytest.raises(NotFound):
        await counted.calls.counted().update_container("nobody", LimitsChange(cpu_shares=2))
    assert counted.value("total", "update_container") == counted.value("errors_total", "update_container") == 1


async def test_a_command_lasts_until_it_has_ended() -> None:
    counted = Counted()

    async def run(*given: Any, **named: Any) -> tuple[int, bytes, bytes]:
        await counted.clock.advance(3)
        return 0, b"", b""

    counted.runtime.exec_sync = run  # type: ignore[assignment,method-assign]
    await counted.calls.commands().exec_sync("c", ["true"])
    assert counted.value("duration_seconds_sum", EXEC_SYNC) == 3
    assert (counted.value("total", EXEC_SYNC), counted.value("total", "exec")) == (1, 0)


async def test_a_command_that_cannot_be_started_is_an_error() -> None:
    counted = Counted()
    with pytest.raises(NotFound):
        await counted.calls.commands().exec_sync("nobody", ["true"])
    assert counted.value("total", EXEC_SYNC) == counted.value("errors_total", EXEC_SYNC) == 1


def test_every_operation_that_is_counted_is_declared() -> None:
    assert {*NAMES.values(), EXEC_SYNC} == set(OPERATIONS)
    assert set(OPERATIONS) == set(inventory.label_values()["kubelet_runtime_operations_total"]["operation_type"])


def test_uncounted_methods_are_passed_on() -> None:
    counted = Counted()
    assert counted.calls.counted().name == counted.runtime.name
