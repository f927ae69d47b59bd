"""Virtual machines follow the power state of their pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.unit.agent.lab import Lab, pod

from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.fake.runtime import FakeRuntime
from podfit.agent.runtimes.values import Machine, RuntimeFailure
from podfit.api.pods.machines import wanted_power
from podfit.kit.clock import FakeClock


class Machines(FakeRuntime):
    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.asked: list[tuple[str, str]] = []
        self.error: RuntimeFailure | None = None

    async def set_power(self, container_id: str, wanted: str, grace_s: float) -> None:
        self.asked.append((container_id, wanted))
        if self.error is not None:
            raise self.error


async def machine(tmp_path: Path, runtime: Machines, power: str, **spec: Any) -> tuple[Lab, PodRecord, Snapshot]:
    lab = Lab(tmp_path, runtime)
    record = await lab.run(pod(**spec))
    found = (await lab.observed(record)).snapshot
    running = {"c": replace(found.running["c"], machine=Machine(power))}
    lab.queue.enqueued.clear()
    return lab, record, replace(found, running=running)


async def test_a_machine_in_another_state_is_changed_once_at_a_time(tmp_path: Path) -> None:
    runtime = Machines()
    lab, record, snapshot = await machine(tmp_path, runtime, "Shutdown")
    wanted = wanted_power(record.pod)
    lab.parts.containers.power.follow(record, snapshot)
    lab.parts.containers.power.follow(record, snapshot)
    await lab.clock.advance(0.0)
    assert runtime.asked == [(snapshot.running["c"].id, wanted)]
    assert ("PowerChanged", f"Virtual machine is {wanted}") in lab.events.kept
    assert lab.queue.enqueued == ["u"]
    await lab.stop()


async def test_a_machine_in_the_wanted_state_is_left_alone(tmp_path: Path) -> None:
    runtime = Machines()
    lab, record, snapshot = await machine(tmp_path, runtime, wanted_power(pod()))
    lab.parts.containers.power.follow(record, snapshot)
    await lab.clock.advance(0.0)
    assert runtime.asked == []
    await lab.stop()


async def test_a_failed_change_is_reported_and_followed_by_a_pass_after_a_pause(tmp_path: Path) -> None:
    runtime = Machines()
    runtime.error = RuntimeFailure("the guest is busy")
    lab, record, snapshot = await machine(tmp_path, runtime, "Shutdown")
    lab.parts.containers.power.follow(record, snapshot)
    await lab.clock.advance(0.0)
    assert lab.events.reasons[-1] == "FailedPowerChange" and lab.queue.enqueued == []
    await lab.clock.advance(5.0)
    assert lab.queue.enqueued == ["u"]
    await lab.stop()
