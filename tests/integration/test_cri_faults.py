"""A container runtime that crashes, hangs, refuses or loses state: pods keep running, limits hold, and all pods
converge.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.support.containers.containerd import Containerd, missing
from tests.support.containers.criproxy import CriProxy, Refusal

from podfit.agent.runtimes.cri.resize import resources
from podfit.agent.runtimes.cri.runtime import CriRuntime
from podfit.agent.runtimes.values import (
    EXITED,
    RUNNING,
    ContainerConfig,
    Limits,
    LimitsChange,
    PodConfig,
    RuntimeFailure,
    RuntimeSilent,
)
from podfit.cri import api_pb2 as api

MIB = 1 << 20
WAIT_S = 30.0
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(missing()), reason=missing())]


class Node:
    """A runtime with one pod and one container, behind a proxy."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder, self.name = folder, f"podfit-test-{uuid.uuid4().hex[:8]}"
        self.endpoint = endpoint
        self.runtime: CriRuntime
        self.events: list[tuple[str, str]] = []
        self._reader: asyncio.Task[None]

    async def open(self) -> None:
        self.runtime = CriRuntime(self.endpoint, self.name, self.folder / "data", f"/{self.name}")
        await self.runtime.open()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for event in self.runtime.events():
            self.events.append((event.kind, event.container_id))

    async def close(self) -> None:
        self._reader.cancel()
        await self.runtime.purge()
        await self.runtime.close()

    async def pod(self) -> str:
        uid = str(uuid.uuid4())
        limits = Limits(512, 200_000, 256 * MIB)
        config = PodConfig(uid, "web", "default", "Burstable", limits, "web-0", self.folder / "logs" / uid)
        await self.runtime.run_pod(config)
        return uid

    async def container(self, uid: str, *command: str, name: str = "c1", attempt: int = 0) -> str:
        config = ContainerConfig(
            name=name,
            attempt=attempt,
            image="busybox",
            command=command or ("sleep", "1000"),
            args=(),
            environment={},
            working_dir="",
            mounts=(),
            limits=Limits(256, 50_000, 64 * MIB),
            log_file=self.folder / "logs" / uid / f"{name}.log",
        )
        cid = await self.runtime.create_container(uid, config)
        await self.runtime.start_container(cid)
        return cid

    async def recorded(self, container_id: str) -> api.LinuxContainerResources:
        """The runtime's values, not the kernel's."""
        answer = await self.runtime.client.ask("ContainerStatus", api.ContainerStatusRequest(container_id=container_id))
        return answer.status.resources.linux


@pytest.fixture
async def proxy(containerd: Containerd, tmp_path: Path) -> AsyncIterator[CriProxy]:
    async with CriProxy(tmp_path, containerd.endpoint) as made:
        yield made


@pytest.fixture
async def node(proxy: CriProxy, tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path, proxy.endpoint)
    await made.open()
    yield made
    proxy.answers.clear()
    await made.close()


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():
            await asyncio.sleep(0.01)


async def until_recorded(node: Node, cid: str, true: Callable[[api.LinuxContainerResources], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                if true(await node.recorded(cid)):
                    return
            except Exception as error:
                if "UNAVAILABLE" not in str(getattr(error, "code", "")):
                    raise
            await asyncio.sleep(0.05)


async def test_a_change_that_the_runtime_refuses_is_reverted_in_the_kernel(node: Node, proxy: CriProxy) -> None:
    cid = await node.container(await node.pod())
    before = await node.runtime.container_limits(cid)

    async def refuse(request: Any) -> Any:
        assert (await node.runtime.container_limits(cid)).memory_bytes == 128 * MIB  # the kernel was written first
        raise Refusal(grpc.StatusCode.UNKNOWN, "a plugin forbids it")

    proxy.answers["UpdateContainerResources"] = refuse
    with pytest.raises(RuntimeFailure, match="a plugin forbids it"):
        await node.runtime.update_container(cid, LimitsChange(900, 90_000, 128 * MIB))
    assert await node.runtime.container_limits(cid) == before


async def test_a_change_that_the_kernel_refuses_never_reaches_the_runtime(node: Node, proxy: CriProxy) -> None:
    cid = await node.container(await node.pod())
    with pytest.raises(RuntimeFailure, match="Invalid argument"):
        await node.runtime.update_container(cid, LimitsChange(cpu_quota_us=900_000))
    assert proxy.count("UpdateContainerResources") == 0


async def test_limits_hold_while_the_runtime_is_silent_and_it_catches_up(
    node: Node, proxy: CriProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "UPDATE_S", 0.2)
    cid = await node.container(await node.pod())
    silent = asyncio.Event()

    async def wait(request: Any) -> Any:
        await silent.wait()
        return await proxy.forward("UpdateContainerResources", request)

    proxy.answers["UpdateContainerResources"] = wait
    await node.runtime.update_container(cid, LimitsChange(cpu_quota_us=70_000))
    await node.runtime.update_container(cid, LimitsChange(memory_bytes=96 * MIB))
    assert await node.runtime.container_limits(cid) == Limits(256, 70_000, 96 * MIB)
    proxy.answers.clear()
    await until_recorded(node, cid, lambda found: (found.cpu_quota, found.memory_limit_in_bytes) == (70_000, 96 * MIB))
    assert await node.runtime.container_limits(cid) == Limits(256, 70_000, 96 * MIB)


async def test_a_slow_update_of_one_container_holds_up_no_other(node: Node, proxy: CriProxy) -> None:
    uid = await node.pod()
    slow, quick = await node.container(uid), await node.container(uid, name="c2")
    going, asked = asyncio.Event(), asyncio.Event()

    async def wait(request: Any) -> Any:
        if request.container_id == slow:
            asked.set()
            await going.wait()
        return await proxy.forward("UpdateContainerResources", request)

    proxy.answers["UpdateContainerResources"] = wait
    waiting = asyncio.create_task(node.runtime.update_container(slow, LimitsChange(cpu_quota_us=60_000)))
    await asked.wait()
    assert (await node.runtime.container_limits(slow)).cpu_quota_us == 60_000
    await node.runtime.update_container(quick, LimitsChange(cpu_quota_us=40_000))
    assert not waiting.done() and (await node.recorded(quick)).cpu_quota == 40_000
    going.set()
    await waiting


# --- all changes of a resize as one ----------------------------------------------------------------------------------


async def test_a_resize_calls_the_runtime_once_for_each_container_and_for_all_concurrently(
    node: Node, proxy: CriProxy
) -> None:
    uid = await node.pod()
    first, second = await node.container(uid), await node.container(uid, name="c2")
    asked: list[str] = []
    both = asyncio.Event()

    async def together(request: Any) -> Any:
        asked.append(request.container_id)
        if len(asked) == 2:
            both.set()
        await both.wait()  # for ever, if one waited for the other
        return await proxy.forward("UpdateContainerResources", request)

    proxy.answers["UpdateContainerResources"] = together
    changes = [
        ("", LimitsChange(memory_bytes=512 * MIB)),
        (first, LimitsChange(memory_bytes=128 * MIB)),
        (second, LimitsChange(memory_bytes=96 * MIB)),
        (first, LimitsChange(cpu_shares=300, cpu_quota_us=60_000)),
        (second, LimitsChange(cpu_shares=400, cpu_quota_us=70_000)),
    ]
    assert await node.runtime.update_all(uid, changes)
    assert await node.runtime.container_limits(first) == Limits(300, 60_000, 128 * MIB)
    assert await node.runtime.container_limits(second) == Limits(400, 70_000, 96 * MIB)
    assert (await node.runtime.pod_limits(uid)).memory_bytes == 512 * MIB
    assert node.runtime.confirmations.outstanding(uid)
    await until(lambda: ("confirmed", "") in node.events)
    assert not node.runtime.confirmations.outstanding(uid) and sorted(asked) == sorted([first, second])
    recorded = await node.recorded(second)
    assert (recorded.cpu_quota, recorded.memory_limit_in_bytes) == (70_000, 96 * MIB)


async def test_all_of_a_resize_is_reverted_if_the_runtime_refuses_a_part_of_it(node: Node, proxy: CriProxy) -> None:
    uid = await node.pod()
    willing, refused = await node.container(uid), await node.container(uid, name="c2")
    before = [await node.runtime.container_limits(cid) for cid in (willing, refused)]
    pod_before = await node.runtime.pod_limits(uid)

    async def refuse(request: Any) -> Any:
        if request.container_id == refused and request.linux.cpu_quota == 20_000:
            raise Refusal(grpc.StatusCode.UNKNOWN, "a plugin forbids it")
        return await proxy.forward("UpdateContainerResources", request)

    proxy.answers["UpdateContainerResources"] = refuse
    changes = [
        (willing, LimitsChange(memory_bytes=32 * MIB)),
        (willing, LimitsChange(cpu_quota_us=20_000)),
        (refused, LimitsChange(cpu_quota_us=20_000)),
        ("", LimitsChange(cpu_quota_us=40_000)),
    ]
    assert await node.runtime.update_all(uid, changes)
    assert (await node.runtime.pod_limits(uid)).cpu_quota_us == 40_000
    await until(lambda: ("refused", "") in node.events)
    assert node.runtime.confirmations.refused(uid)
    assert [await node.runtime.container_limits(cid) for cid in (willing, refused)] == before
    assert await node.runtime.pod_limits(uid) == pod_before
    recorded = await node.recorded(willing)
    assert (recorded.cpu_quota, recorded.memory_limit_in_bytes) == (50_000, 64 * MIB)


async def test_a_resize_that_the_kernel_refuses_in_part_is_reverted_without_calling_the_runtime(
    node: Node, proxy: CriProxy
) -> None:
    uid = await node.pod()
    cid = await node.container(uid)
    before = await node.runtime.container_limits(cid)
    changes = [(cid, LimitsChange(memory_bytes=32 * MIB)), (cid, LimitsChange(cpu_quota_us=900_000))]
    assert not await node.runtime.update_all(uid, changes)
    assert await node.runtime.container_limits(cid) == before
    assert proxy.count("UpdateContainerResources") == 0 and not node.runtime.confirmations.outstanding(uid)


async def test_a_container_that_ends_during_its_update_has_refused_nothing(node: Node, proxy: CriProxy) -> None:
    uid = await node.pod()
    cid = await node.container(uid)
    state = await node.runtime.container(cid)
    assert state is not None

    async def end_first(request: Any) -> Any:
        os.kill(state.pid, signal.SIGKILL)
        await until(lambda: ("exited", cid) in node.events)
        return await proxy.forward("UpdateContainerResources", request)

    proxy.answers["UpdateContainerResources"] = end_first
    assert await node.runtime.update_all(uid, [(cid, LimitsChange(cpu_quota_us=20_000))])
    await until(lambda: ("confirmed", "") in node.events)
    assert not node.runtime.confirmations.refused(uid)


async def test_a_change_that_a_runtime_refuses_late_is_reverted(
    node: Node, proxy: CriProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "UPDATE_S", 0.2)
    uid = await node.pod()
    cid = await node.container(uid)
    before = await node.runtime.container_limits(cid)
    asked = 0

    async def refuse_at_last(request: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            await asyncio.sleep(60)
        raise Refusal(grpc.StatusCode.UNKNOWN, "a plugin forbids it")

    proxy.answers["UpdateContainerResources"] = refuse_at_last
    assert await node.runtime.update_all(uid, [(cid, LimitsChange(cpu_quota_us=20_000))])
    await until(lambda: ("confirmed", "") in node.events)  # without a response the kernel's values remain
    assert (await node.runtime.container_limits(cid)).cpu_quota_us == 20_000
    await until(lambda: ("refused", cid) in node.events)
    assert await node.runtime.container_limits(cid) == before and node.runtime.confirmations.refused(uid)


# --- starting ---------------------------------------------------------------------------------------------------------


def quotas_during(node: Node, proxy: CriProxy, method: str) -> list[int | None]:
    """The values of pods at the moment when the runtime is called."""
    seen: list[int | None] = []

    async def check(request: Any) -> Any:
        seen.append(read_quota(node, request))
        return await proxy.forward(method, request)

    proxy.answers[method] = check
    return seen


def read_quota(node: Node, request: Any) -> int | None:
    book = node.runtime._inventory
    assert book.cgroups is not None
    if isinstance(request, api.RunPodSandboxRequest):
        group = request.config.linux.cgroup_parent
    else:
        group = book.pods[book.containers[request.container_id].pod_uid].group
    return book.cgroups.limits(group).cpu_quota_us


async def test_starting_a_sandbox_or_a_container_does_not_use_up_the_pods_quota(node: Node, proxy: CriProxy) -> None:
    made = quotas_during(node, proxy, "RunPodSandbox")
    started = quotas_during(node, proxy, "StartContainer")
    uid = await node.pod()
    assert (await node.runtime.pod_limits(uid)).cpu_quota_us == 200_000
    await node.container(uid)
    await node.container(uid, name="c2")
    assert (made, started) == ([None], [None, None])
    assert (await node.runtime.pod_limits(uid)).cpu_quota_us == 200_000


async def test_a_pods_quota_holds_during_a_start_if_its_containers_could_use_more(node: Node, proxy: CriProxy) -> None:
    uid = await node.pod()
    first = await node.container(uid)
    await node.runtime.update_container(first, LimitsChange(cpu_quota_us=190_000))
    started = quotas_during(node, proxy, "StartContainer")
    await node.container(uid, name="c2")  # 50 ms and 190 ms of each 100 ms, where the pod has 200
    assert started == [200_000]


async def test_a_sandbox_whose_answer_was_lost_is_found_and_used(node: Node, proxy: CriProxy) -> None:
    async def lose(request: Any) -> Any:
        await proxy.forward("RunPodSandbox", request)
        del proxy.answers["RunPodSandbox"]
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "connection lost")

    proxy.answers["RunPodSandbox"] = lose
    uid = str(uuid.uuid4())
    config = PodConfig(uid, "web", "default", "Burstable", Limits(512), "web-0", node.folder / "logs" / uid)
    with pytest.raises(RuntimeSilent):
        await node.runtime.run_pod(config)
    await until(lambda: ("found", "") in node.events)
    await node.runtime.run_pod(config)
    assert proxy.count("RunPodSandbox") == 1
    await node.container(uid)


async def test_a_sandbox_that_could_not_be_read_gets_its_addresses_later(node: Node, proxy: CriProxy) -> None:
    async def lose(request: Any) -> Any:
        del proxy.answers["PodSandboxStatus"]
        raise Refusal(grpc.StatusCode.UNAVAILABLE, "connection lost")

    proxy.answers["PodSandboxStatus"] = lose
    with pytest.raises(RuntimeSilent):
        await node.pod()
    [uid] = node.runtime._inventory.pods
    await until(lambda: node.runtime._inventory.pods[uid].ips)
    assert proxy.count("RunPodSandbox") == 1


async def test_missing_statistics_count_as_zero_and_cause_no_error(node: Node, proxy: CriProxy) -> None:
    uid = await node.pod()
    cid = await node.container(uid)

    async def nothing(request: Any) -> Any:
        return api.ContainerStatsResponse()

    proxy.answers["ContainerStats"] = nothing
    known = node.runtime._inventory.containers[cid]
    known.group = ""  # as for a container whose cgroup cannot be read
    assert (await node.runtime.container_usage(cid)).memory_bytes == 0
    assert [state.id for state, _ in await node.runtime.usages(uid)] == [cid]


async def test_one_task_requests_the_end_of_a_container_however_late_the_runtime_reports_it(
    node: Node, proxy: CriProxy
) -> None:
    cid = await node.container(await node.pod(), "sleep", "0.2")
    asked, now, most = 0, 0, 0

    async def late(request: Any) -> Any:
        nonlocal asked, now, most
        asked, now = asked + 1, now + 1
        most = max(most, now)
        answer = await proxy.forward("ContainerStatus", request)
        await asyncio.sleep(0.02)
        now -= 1
        if asked < 12:
            answer.status.state = api.CONTAINER_RUNNING
        return answer

    proxy.answers["ContainerStatus"] = late
    await until(lambda: ("exited", cid) in node.events)
    assert most <= 3  # the task, a list of all containers and the runtime's own event may coincide


# --- a containerd of their own, which these tests end ----------------------------------------------------------------


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[Containerd]:
    made = Containerd(tmp_path / "containerd")
    await asyncio.to_thread(made.start)
    yield made
    await asyncio.to_thread(made.stop)


@pytest.fixture
async def alone(own: Containerd, tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path, own.endpoint)
    await made.open()
    yield made
    await made.close()


async def test_a_crash_of_the_runtime_loses_no_pod_and_restarts_none(alone: Node, own: Containerd) -> None:
    uid = await alone.pod()
    stays = await alone.container(uid)
    ends = await alone.container(uid, "sh", "-c", "while [ ! -e /gone ]; do sleep 0.05; done; exit 7", name="c2")
    before = await alone.runtime.container(stays)
    stream = await alone.runtime.exec(ends, ["sh", "-c", "(sleep 1; touch /gone) >/dev/null 2>&1 &"])
    await stream.wait()
    await stream.close()
    await asyncio.to_thread(own.crash)
    with pytest.raises(RuntimeSilent):
        await alone.runtime.image_status("busybox")
    pod = await alone.runtime.pod(uid)
    assert pod is not None and pod.alive and await alone.runtime.container(stays) == before
    await alone.runtime.update_container(stays, LimitsChange(cpu_quota_us=30_000))
    assert (await alone.runtime.container_limits(stays)).cpu_quota_us == 30_000
    await asyncio.sleep(1.2)  # the other container exits while the agent is not running
    await asyncio.to_thread(own.launch)
    await until(lambda: ("exited", ends) in alone.events)
    ended = await alone.runtime.container(ends)
    # containerd 2 does not know the exit codes of containers that ended while it was away.
    lost = () if own.version < "2" else (255,)
    assert ended is not None and ended.state == EXITED and ended.exit_code in (7, *lost)
    assert await alone.runtime.container(stays) == before
    await until_recorded(alone, stays, lambda found: found.cpu_quota == 30_000)
    assert "pod-gone" not in {kind for kind, _ in alone.events}


async def test_a_runtime_that_hangs_holds_up_only_what_waits_for_it(
    alone: Node, own: Containerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "UPDATE_S", 0.3)
    uid = await alone.pod()
    cid = await alone.container(uid)
    own.hang()
    try:
        await alone.runtime.update_container(cid, LimitsChange(memory_bytes=80 * MIB))
        assert (await alone.runtime.container_limits(cid)).memory_bytes == 80 * MIB
        pod = await alone.runtime.pod(uid)
        assert pod is not None and [container.state for container in pod.containers] == [RUNNING]
    finally:
        own.wake()
    await until_recorded(alone, cid, lambda found: found.memory_limit_in_bytes == 80 * MIB)


async def test_a_sandbox_that_exits_is_detected_at_once(alone: Node) -> None:
    uid = await alone.pod()
    await alone.container(uid)
    request = api.PodSandboxStatusRequest(pod_sandbox_id=alone.runtime._inventory.pods[uid].sandbox_id, verbose=True)
    answer = await alone.runtime.client.ask("PodSandboxStatus", request)
    os.kill(json.loads(answer.info["info"])["pid"], signal.SIGKILL)
    await until(lambda: ("pod-gone", "") in alone.events)
    pod = await alone.runtime.pod(uid)
    assert pod is not None and not pod.alive


async def test_the_range_of_pods_reaches_a_runtime_that_is_opened_later(proxy: CriProxy, tmp_path: Path) -> None:
    name = f"podfit-test-{uuid.uuid4().hex[:8]}"
    runtime = CriRuntime(proxy.endpoint, name, tmp_path / "data", f"/{name}")
    runtime.use_range("10.1.2.0/24")
    await runtime.open()
    try:
        await until(lambda: proxy.count("UpdateRuntimeConfig"))
        runtime.use_range("10.1.2.0/24")
        [sent] = [request for call, request in proxy.seen if call == "UpdateRuntimeConfig"]
        assert sent.runtime_config.network_config.pod_cidr == "10.1.2.0/24"
    finally:
        await runtime.purge()
        await runtime.close()
