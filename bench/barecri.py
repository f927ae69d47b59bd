"""The time that a container runtime needs by itself: the bare CRI calls behind a pod start and a container resize."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from podfit.agent.runtimes.cri.messages import configs
from podfit.agent.runtimes.values import ContainerConfig, Limits, PodConfig
from podfit.cri import CriClient
from podfit.cri import api_pb2 as api

NODE = "bench-bare"
IMAGE = "docker.io/library/host:latest"


@dataclass
class BarePod:
    sandbox: str
    containers: list[str]
    seconds: float
    """From the first call to the response to the last one."""


class BareRuntime:
    """Sends the same requests as the agent, but directly from the benchmark."""

    def __init__(self, endpoint: str, folder: Path) -> None:
        self.client, self._folder = CriClient(endpoint), folder
        self._pods: list[BarePod] = []

    async def run(self, limits: Limits, containers: int = 1) -> BarePod:
        uid = str(uuid.uuid4())
        logs = self._folder / uid
        logs.mkdir(parents=True)
        pod = PodConfig(uid, f"bare-{uid[:8]}", "bench", "Burstable", Limits(), "bare", logs)
        made = [_container(f"c{number}", limits, logs) for number in range(containers)]
        sandbox = configs.sandbox(pod, NODE, 0, f"/podfit-bench-bare/pod{uid}")
        began = time.perf_counter()
        answer = await self.client.ask("RunPodSandbox", api.RunPodSandboxRequest(config=sandbox))
        found = BarePod(answer.pod_sandbox_id, [], 0.0)
        for config in made:
            request = api.CreateContainerRequest(
                pod_sandbox_id=found.sandbox,
                config=configs.container(config, pod, NODE, [], ""),
                sandbox_config=sandbox,
            )
            created = (await self.client.ask("CreateContainer", request)).container_id
            await self.client.ask("StartContainer", api.StartContainerRequest(container_id=created))
            found.containers.append(created)
        found.seconds = time.perf_counter() - began
        self._pods.append(found)
        return found

    async def update(self, pod: BarePod, milli: int, memory: int = 0) -> float:
        """Seconds until one UpdateContainerResources per container has returned, all sent at once."""

        async def one(container: str) -> None:
            linux = api.LinuxContainerResources(
                cpu_period=100_000,
                cpu_quota=milli * 100,
                cpu_shares=10,
                memory_limit_in_bytes=memory,
                memory_swap_limit_in_bytes=memory,
            )
            request = api.UpdateContainerResourcesRequest(container_id=container, linux=linux)
            await self.client.ask("UpdateContainerResources", request)

        began = time.perf_counter()
        await asyncio.gather(*(one(container) for container in pod.containers))
        return time.perf_counter() - began

    async def recorded(self, container: str, milli: int, memory: int) -> None:
        """Waits until the runtime itself reports these limits for a container, whichever client set them."""
        request = api.ContainerStatusRequest(container_id=container)
        while True:
            linux = (await self.client.ask("ContainerStatus", request)).status.resources.linux
            if linux.cpu_quota == milli * 100 and memory in (0, linux.memory_limit_in_bytes):
                return
            await asyncio.sleep(0.002)

    async def remove(self, pod: BarePod) -> None:
        self._pods.remove(pod)
        await self.client.ask("StopPodSandbox", api.StopPodSandboxRequest(pod_sandbox_id=pod.sandbox))
        await self.client.ask("RemovePodSandbox", api.RemovePodSandboxRequest(pod_sandbox_id=pod.sandbox))

    async def emptied(self) -> None:
        """Waits until the runtime has no pods left, whichever client created them."""
        while (await self.client.ask("ListPodSandbox", api.ListPodSandboxRequest())).items:
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        for pod in list(self._pods):
            await self.remove(pod)
        await self.client.close()


def _container(name: str, limits: Limits, logs: Path) -> ContainerConfig:
    return ContainerConfig(
        name=name,
        attempt=0,
        image=IMAGE,
        command=("sleep", "100000"),
        args=(),
        environment={},
        working_dir="",
        mounts=(),
        limits=limits,
        log_file=logs / f"{name}.log",
    )
