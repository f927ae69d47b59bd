"""Power states of a VM whose disk fails."""

from __future__ import annotations

from typing import Any, cast

import pytest

pytest.importorskip("libvirt", reason="libvirt-python is not installed")

from podfit.api.pods.machines import PAUSED
from podfit.api.pods.machines import RUNNING as RUNS
from podfit.vm import power
from podfit.vm.decide.refusals import GuestBusy
from podfit.vm.machines.machine import State
from podfit.vm.power import Power
from podfit.vm.records import RUNNING


class Vm:
    """A VM that QEMU has paused because its disk failed."""

    id, state = "vm", RUNNING

    def __init__(self, mended: bool) -> None:
        self._mended, self.paused = mended, True

    async def resume(self) -> None:
        self.paused = not self._mended

    async def power(self, _container: Any) -> str:
        return PAUSED if self.paused else RUNS

    def machine(self, _container: Any) -> Any:
        return FakeMachine(self)

    def changed(self, _container: Any) -> None:
        pass


class FakeMachine:
    def __init__(self, vm: Vm) -> None:
        self._vm, self.resume = vm, vm.resume

    async def state(self) -> Any:
        return State(True, self._vm.paused, disk_failed=self._vm.paused)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "_RETRIED_S", 0)


async def test_a_vm_that_its_disk_stops_again_is_not_running_and_the_disk_is_the_cause() -> None:
    vm = cast(Any, Vm(mended=False))
    with pytest.raises(GuestBusy, match="writing its disk on the node fails"):
        await Power(vm).set(vm, RUNS, 0)


async def test_a_vm_goes_on_when_its_disk_does() -> None:
    vm = cast(Any, Vm(mended=True))
    await Power(vm).set(vm, RUNS, 0)
    assert not vm.paused
