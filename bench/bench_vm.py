"""Measures VMs: from the PATCH of a pod until its guest has the new size, against the bare libvirt call; from a crash
until it is reported; and the cost of many VMs.

`podfit up` runs in its own process and the VM runtime in this one, next to libvirt, so that both paths resize the same
guest in turns. Both end when the guest itself reports the new memory or vCPU. Has the same requirements as the tests of
VMs, and prints the missing ones.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from tests.vms import GUEST, Vms, guest_archive, resources, serving, why_no_vms

from bench.cluster import PODS, Cluster, cluster, pod, running
from podfit.api.objects import Object
from podfit.compose_vm import runtime_class
from podfit.cri import api_pb2 as cri
from podfit.vm.runtime import Runtime

ROUNDS, MANY, MOST_VCPUS = 7, 20, 8
NAME = "guest"


class Guest:
    """A VM pod, and its VM in the runtime."""

    def __init__(self, at: Cluster, runtime: Runtime, id: str) -> None:
        container = runtime.container(id)
        self._at, self._called, self._waits = at, 0.0, 0
        self._console = runtime.folder / "vms" / id / "console" / "raw.log"
        self.machine, self.agent = runtime.lives.machine(container), runtime.resizer.agent(container)
        self.before_call: list[float] = []
        """Seconds from the PATCH to the call of the runtime, for every resize."""
        self._note_calls(runtime.resizer)

    def _note_calls(self, resizer: Any) -> None:
        update = resizer.update

        async def noted(*arguments: Any) -> None:
            self._called = self._called or time.perf_counter()
            await update(*arguments)

        resizer.update = noted

    async def patch(self, cpus: int, memory: int) -> None:
        limits = {"cpu": str(cpus), "memory": f"{memory}Mi"}
        began, self._called = time.perf_counter(), 0.0
        body = {"spec": {"containers": [{"name": "vm", "resources": {"limits": limits}}]}}
        await self._at.send("PATCH", f"{PODS}/{NAME}/resize", body)
        while not self._called:
            await asyncio.sleep(0.001)
        self.before_call.append(self._called - began)

    async def resized(self, cpus: int, memory: int) -> None:
        await self.patch(cpus, memory)
        await self._at.seen(NAME, has(cpus, memory))

    async def has_after(self, condition: str, work: Coroutine[Any, Any, None]) -> float:
        """Seconds until the condition is true in the guest, which reports it on its console: requests to the guest
        agent would queue behind those of the runtime."""
        self._waits += 1
        begun, seen = f"waiting {self._waits}.", f"true {self._waits}."
        script = (
            f"exec 3<>/dev/pause; echo {begun}; while ! {{ {condition}; }}; do read -t 0.003 _ <&3; done; echo {seen}"
        )
        pause = "[ -p /dev/pause ] || mkfifo /dev/pause"
        await self.agent.start(["/bin/sh", "-c", f"{pause}; ({script}) >/dev/ttyS0"])
        await self._says(begun)
        began = time.perf_counter()
        task = asyncio.ensure_future(work)
        await self._says(seen)
        taken = time.perf_counter() - began
        await task
        return taken

    async def _says(self, words: str) -> None:
        async with asyncio.timeout(60):
            while words not in self._console.read_text(errors="replace"):
                await asyncio.sleep(0.002)


def has(cpus: int, memory: int) -> Callable[[Object], bool]:
    def check(one: Object) -> bool:
        status = one["status"]
        shown = (status.get("containerStatuses") or [{}])[0].get("resources") or {}
        pending = any(found["type"].startswith("PodResize") for found in status.get("conditions") or ())
        return not pending and shown.get("limits") == written(cpus, memory)

    return check


def written(cpus: int, memory: int) -> dict[str, str]:
    return {"cpu": str(cpus), "memory": f"{memory >> 10}Gi" if memory % 1024 == 0 else f"{memory}Mi"}


async def memory(guest: Guest) -> tuple[list[float], list[float]]:
    bare, through = [], []
    total = (await guest.agent.memory()).total << 10
    grown = f"read -r _ total _ </proc/meminfo; [ $total -gt {total + (120 << 10)} ]"
    for _ in range(ROUNDS):
        bare.append(await guest.has_after(grown, guest.machine.attach(128, 0)))
        await guest.resized(1, 383)
        await guest.resized(1, 256)
        through.append(await guest.has_after(grown, guest.resized(1, 384)))
        await guest.resized(1, 256)
    return bare, through


async def vcpus(guest: Guest) -> tuple[list[float], list[float]]:
    """Each step plugs more vCPUs; none is unplugged, because the machine may be emulated."""
    bare, through = [], []
    for count in range(2, MOST_VCPUS, 2):
        bare.append(await guest.has_after(online(count), plug(guest, count)))
        await guest.resized(count, 256)
        through.append(await guest.has_after(online(count + 1), guest.resized(count + 1, 256)))
    return bare, through


def online(count: int) -> str:
    return f'read -r cpus </sys/devices/system/cpu/online; [ "$cpus" = 0-{count - 1} ]'


async def plug(guest: Guest, count: int) -> None:
    await guest.machine.add_vcpus(count)
    while len(await guest.agent.vcpus()) < count:
        await asyncio.sleep(0.005)
    await guest.agent.set_vcpus({count - 1: True})


def row(what: str, bare: list[float], through: list[float]) -> str:
    ratio = statistics.median(through) / statistics.median(bare)
    return f"| {what} | {statistics.median(bare) * 1000:.0f} ms bare | {ratio:.2f} × |"


async def sizes(runtime: Runtime, vms: Vms, socket: Path) -> None:
    async with cluster("--runtime-endpoint", f"vm=unix://{socket}", "--node-cpu", "16") as at:
        await at.send("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class())
        limits = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}}
        vm = {"name": "vm", "image": GUEST, "resources": limits}
        one = pod(NAME, runtimeClassName="vm", containers=[vm], terminationGracePeriodSeconds=1)
        one["metadata"]["annotations"] = {"podfit.dev/vm-max-vcpus": str(MOST_VCPUS)}
        await at.send("POST", PODS, one)
        await at.seen(NAME, running)
        id = at.pods[NAME]["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
        await vms.booted(id)
        guest = Guest(at, runtime, id)
        print(row("128 MiB of memory plugged: from PATCH until the guest counts it", *await memory(guest)))
        print(row("a vCPU added: from PATCH until it is online in the guest", *await vcpus(guest)))
        print(f"| … of which before the runtime is called | {statistics.median(guest.before_call) * 1000:.0f} ms | |")
        await at.send("DELETE", f"{PODS}/{NAME}")
        await at.gone([NAME])


async def crash(runtime: Runtime, vms: Vms, id: str) -> float:
    pid = runtime.lives.machine(runtime.container(id)).pid()
    assert pid is not None
    begun = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    while (await vms.status(id)).state != cri.ContainerState.CONTAINER_EXITED:
        await asyncio.sleep(0.005)
    return time.perf_counter() - begun


async def many(vms: Vms) -> int:
    """The growth of the runtime's process in KiB."""
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
            await sizes(runtime, vms, folder / "vm.sock")
            id = await vms.run("bench")
            print(f"| QEMU killed, until its status says so | {await crash(runtime, vms, id) * 1000:.0f} ms | |")
            print(f"| {MANY} VMs defined and listed | {await many(vms) / 1024:.1f} MiB more in the process | |")


if __name__ == "__main__":
    if why := why_no_vms():
        print(f"no VMs here: {why}")
        sys.exit(0)
    asyncio.run(main())
