"""A VM runtime that exits while it connects a pod to the network leaves no network resources in the kernel."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kernelnet import leftovers
from tests.vms import Vms, needs_vms, process, until

from podfit.cri import api_pb2 as cri
from podfit.podnet.network import PodNetwork
from podfit.podnet.support import missing_for_bridge
from podfit.vm.reach import links, network
from podfit.vm.reach.network import Networks
from podfit.vm.records import Sandbox

pytestmark = [needs_vms, pytest.mark.skipif(bool(missing_for_bridge()), reason="no bridges here")]
MOST_STEPS = 20


def mark_of(folder: Path) -> str:
    return hashlib.sha256(f"vm {folder.absolute()}".encode()).hexdigest()[:8]


def sandbox_of(uid: str, id: str = "0123456789abcdef") -> Sandbox:
    metadata = cri.PodSandboxMetadata(name="guest", uid=uid, namespace="default")
    return Sandbox(id, cri.PodSandboxConfig(metadata=metadata), "vm", 0)


class Cut:
    """Calls `act` before one of the steps that connect a pod."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at, self.count, self.act = -1, 0, _nothing
        for owner, name in ((PodNetwork, "connect"), (links, "ip"), (network.DhcpServer, "start")):
            self._wrap(owner, name, patch)

    def _wrap(self, owner: Any, name: str, patch: pytest.MonkeyPatch) -> None:
        real = getattr(owner, name)

        async def step(*arguments: Any, **named: Any) -> Any:
            if self.count == self.at:
                self.act()
            self.count += 1
            return await real(*arguments, **named)

        patch.setattr(owner, name, step)

    def arm(self, at: int, act: Callable[[], object]) -> None:
        self.at, self.count, self.act = at, 0, act


def _nothing() -> object:
    return None


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Cut:
    return Cut(monkeypatch)


async def test_a_call_cut_off_at_any_step_takes_its_network_back(tmp_path: Path, cut: Cut) -> None:
    points = 0
    for at in range(MOST_STEPS):
        networks = Networks(tmp_path / "network", "bridge")
        await networks.open([])
        call = asyncio.ensure_future(networks.connect(sandbox_of("pod")))
        cut.arm(at, call.cancel)
        await asyncio.gather(call, return_exceptions=True)
        if not call.cancelled():
            await networks.disconnect(sandbox_of("pod"))
            await networks.close()
            break
        points += 1
        await networks.close()
        assert leftovers(mark_of(tmp_path / "network")) == [], f"cut off at step {at}"
    assert points > 8
    assert leftovers(mark_of(tmp_path / "network")) == []


async def test_a_pod_that_is_connected_again_by_another_call_keeps_its_network(tmp_path: Path, cut: Cut) -> None:
    networks = Networks(tmp_path / "network", "bridge")
    await networks.open([])
    first, second = sandbox_of("pod", "a" * 16), sandbox_of("pod", "b" * 16)
    call = asyncio.ensure_future(networks.connect(first))
    cut.arm(5, call.cancel)
    await asyncio.gather(call, return_exceptions=True)
    async with networks.turn("pod"):
        await networks.connect(second)

    async def settled() -> bool:
        return not networks._pending

    await until(settled)
    assert Path(second.namespace).exists()
    await networks.disconnect(second)
    await networks.close()


async def test_connections_of_a_killed_runtime_are_removed_at_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "network"
    killed = Networks(folder, "bridge")
    await killed.open([])
    ready, lost = sandbox_of("ready", "a" * 16), sandbox_of("lost", "b" * 16)
    await killed.connect(ready)
    await killed.connect(lost)
    for server in killed._servers.values():
        await server.close()

    following = Networks(folder, "bridge")
    await following.open([ready])

    assert Path(ready.namespace).exists()
    assert not Path(lost.namespace).exists()
    await following.disconnect(ready)
    await following.close()
    assert leftovers(mark_of(folder)) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
async def test_a_runtime_that_is_ended_by_a_signal_leaves_no_network(short_path: Path, number: signal.Signals) -> None:
    mark = mark_of(short_path / "network")

    async def namespace_is_there() -> bool:
        return any(leftover.startswith("namespace") for leftover in leftovers(mark))

    async with process(short_path, "--network", "bridge") as running:
        vms = Vms(short_path / "vm.sock")
        request = cri.RunPodSandboxRequest(config=await vms.sandbox("guest"))
        call = asyncio.ensure_future(vms.runtime["RunPodSandbox"](request))
        await until(namespace_is_there)
        running.send_signal(number)
        await running.wait()
        await asyncio.gather(call, return_exceptions=True)
        await vms.close()
    async with process(short_path, "--network", "bridge") as running:
        vms = Vms(short_path / "vm.sock")
        # If it was recorded just before the signal, it is a pod like any other.
        await vms.remove_all()
        await vms.close()
        running.terminate()
        await running.wait()
    assert leftovers(mark) == []
