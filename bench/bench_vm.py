"""VMs: a resize through CRI against the bare libvirt call, a crash until it is reported, and what many VMs cost.

Both ways end when the guest itself counts the new memory or vCPU. Needs what tests of VMs need; else it says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from tests.vms import GUEST, Vms, guest_archive, resources, serving, why_no_vms

from podfit.cri import api_pb2 as cri
from podfit.vm.runtime import Runtime

ROUNDS, MANY = 5, 20


async def timed(work: Callable[[], Awaitable[object]], seen: Callable[[], Awaitable[bool]]) -> float:
    begun = time.perf_counter()
    await work()
    while not await seen():
        await asyncio.sleep(0.005)
    return time.perf_counter() - begun


async def memory(runtime: Runtime, vms: Vms, id: str) -> tuple[float, float]:
    container = runtime.container(id)
    machine, agent = runtime.lives.machine(container), runtime.resizer.agent(container)
    bare, through = [], []
    for _ in range(ROUNDS):
        before = (await agent.memory()).total

        async def grown(wanted: int = before + 120) -> bool:
            return (await agent.memory()).total >= wanted

        bare.append(await timed(lambda: machine.attach(128, 0), grown))
        await vms.resize(id, 1, 257)
        await vms.resize(id, 1, 256)
        through.append(await timed(lambda: vms.resize(id, 1, 384), grown))
        await vms.resize(id, 1, 256)
    return statistics.median(bare), statistics.median(through)


async def vcpus(runtime: Runtime, vms: Vms, id: str) -> tuple[float, float]:
    """Plugged once and never unplugged, as an emulated machine wants it: each VM gives one pair of numbers."""
    container = runtime.container(id)
    machine, agent = runtime.lives.machine(container), runtime.resizer.agent(container)

    async def online(count: int) -> bool:
        return sum((await agent.vcpus()).values()) >= count

    async def bare() -> None:
        await machine.add_vcpus(2)
        while len(await agent.vcpus()) < 2:
            await asyncio.sleep(0.005)
        await agent.set_vcpus({1: True})

    first = await timed(bare, lambda: online(2))
    second = await timed(lambda: vms.resize(id, 3, 256), lambda: online(3))
    return first, second


async def crash(runtime: Runtime, vms: Vms, id: str) -> float:
    pid = runtime.lives.machine(runtime.container(id)).pid()
    assert pid is not None
    begun = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    while (await vms.status(id)).state != cri.ContainerState.CONTAINER_EXITED:
        await asyncio.sleep(0.005)
    return time.perf_counter() - begun


async def many(vms: Vms) -> int:
    """KiB that the runtime's process grows by."""
    before = rss()
    for number in range(MANY):
        config = await vms.sandbox(f"many-{number}")
        sandbox = (await vms.runtime["RunPodSandbox"](cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
        container = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="vm"),
            image=cri.ImageSpec(image=GUEST),
            linux=cri.LinuxContainerConfig(resources=resources(1, 256)),
        )
        await vms.runtime["CreateContainer"](
            cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        )
    assert len((await vms.runtime["ListContainers"](cri.ListContainersRequest())).containers) >= MANY
    return rss() - before


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with serving(folder, guest_archive(folder)) as (runtime, vms):
            id = await vms.run("bench")
            await vms.booted(id)
            bare, through = await memory(runtime, vms, id)
            print(f"| memory plug, until the guest sees it | {bare * 1000:.0f} ms bare | {through / bare:.2f} × |")
            bare, through = await vcpus(runtime, vms, id)
            print(f"| vCPU up, until the guest uses it | {bare * 1000:.0f} ms bare | {through / bare:.2f} × |")
            print(f"| QEMU killed, until its status says so | {await crash(runtime, vms, id) * 1000:.0f} ms | |")
            print(f"| {MANY} VMs defined and listed | {await many(vms) / 1024:.1f} MiB more in the process | |")


if __name__ == "__main__":
    if why := why_no_vms():
        print(f"no VMs here: {why}")
        sys.exit(0)
    asyncio.run(main())
