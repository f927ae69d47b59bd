"""Resizes on containerd where the runtime, its plugins or its helper processes interfere.

A proxy simulates containerd's plugins, another cgroup driver or a slow machine: it changes, delays or drops calls to
the runtime. The containers and their cgroups are real.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from podfit.api.objects import Object
from tests.support.containers.containerd import Containerd, missing
from tests.support.containers.criproxy import CriProxy, Refusal

from .seedpods import V1, Lab, conditions, container, exactly, is_settled, patch_of, pod, policy, sizes, statuses

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("cri-resizes"),
]
MIB = 1 << 20
PATIENCE_S = 60.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def between(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CriProxy]:
    async with CriProxy(tmp_path_factory.mktemp("proxy"), containerd.endpoint) as made:
        yield made


@pytest.fixture
def proxy(between: CriProxy) -> Iterator[CriProxy]:
    """Forwards calls to containerd, unless a test changes that."""
    between.seen.clear()
    yield between
    between.answers.clear()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(between: CriProxy, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    options = {"runtime": "cri", "runtime_endpoint": between.endpoint, "scheduler": False}
    async with Lab(tmp_path_factory.mktemp("cri"), **options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab, between: CriProxy) -> AsyncIterator[None]:
    yield
    between.answers.clear()
    await lab.clear()


def adjust(proxy: CriProxy, change: Any) -> None:
    """Changes the resources of every container on their way into the runtime, as one of its plugins would."""

    async def created(request: Any) -> Any:
        change(request.config.linux.resources)
        return await proxy.forward("CreateContainer", request)

    async def updated(request: Any) -> Any:
        change(request.linux)
        return await proxy.forward("UpdateContainerResources", request)

    proxy.answers.update(CreateContainer=created, UpdateContainerResources=updated)


async def settled(lab: Lab, name: str) -> Object:
    """Also according to the runtime, whose response the status does not wait for."""
    seen = await lab.until(name, is_settled, patience_s=PATIENCE_S)
    await asyncio.wait_for(lab.agent.runtime.confirmations.wait(seen["metadata"]["uid"]), PATIENCE_S)
    return seen


async def looked(lab: Lab, name: str) -> Object:
    """The pod after the agent has compared every cgroup with the values it set."""
    await lab.agent.drift.check()
    await lab.agent.idle()
    return await settled(lab, name)


# --- values that others change --------------------------------------------------------------------------------------


async def test_values_that_a_plugin_changes_are_reported_and_set_once(lab: Lab, proxy: CriProxy) -> None:
    def halve(linux: Any) -> None:
        linux.cpu_quota = linux.cpu_quota // 2

    adjust(proxy, halve)
    await lab.run(pod("p", container("c1", sizes("100m/32Mi", "400m/64Mi"))))
    await lab.patch("p", patch_of({"c1": sizes("100m/32Mi", "600m/64Mi")}))
    await settled(lab, "p")
    asked = proxy.count("UpdateContainerResources")
    for _ in range(3):
        seen = await looked(lab, "p")
    assert statuses(seen)["c1"]["resources"] == sizes("100m/32Mi", "300m/64Mi")
    assert lab.host(seen, "c1").quota_us == 30_000
    assert proxy.count("UpdateContainerResources") == asked
    assert len(await lab.events("p", "CgroupChanged")) <= 1


async def test_quotas_that_systemd_rounds_up_are_what_was_requested(lab: Lab, proxy: CriProxy) -> None:
    """systemd keeps CPU time per second in steps of 10 ms: 123m becomes 130m."""

    def rounded(linux: Any) -> None:
        linux.cpu_quota = -(-linux.cpu_quota // 1000) * 1000

    adjust(proxy, rounded)
    # The second container has no limit, and so the pod has none: 130m would not fit into 123m.
    await lab.run(pod("q", container("c1", sizes("100m/32Mi", "457m/64Mi")), container("c2")))
    await lab.patch("q", patch_of({"c1": sizes("100m/32Mi", "123m/64Mi")}))
    await settled(lab, "q")
    asked = proxy.count("UpdateContainerResources")
    for _ in range(3):
        seen = await looked(lab, "q")
    assert lab.host(seen, "c1").quota_us == 13_000
    assert statuses(seen)["c1"]["resources"] == sizes("100m/32Mi", "123m/64Mi")
    assert proxy.count("UpdateContainerResources") == asked
    assert await lab.events("q", "CgroupChanged") == []


async def test_containers_without_cpu_of_their_own_keep_their_weight_when_the_pod_is_resized(lab: Lab) -> None:
    body = pod("p", container("c1"), container("c2", resizePolicy=policy("cpu")))
    body["spec"]["resources"] = exactly("500m/64Mi")
    seen = await lab.run(body)
    await lab.verify(seen)
    for larger in ("1/128Mi", "250m/64Mi"):
        await lab.patch("p", patch_of({}, whole=exactly(larger)))
        seen = await settled(lab, "p")
        milli = 1000 if larger.startswith("1/") else 250
        assert [lab.host(seen, name).shares for name in ("c1", "c2")] == [milli * 1024 // 1000] * 2


# --- a slow runtime -------------------------------------------------------------------------------------------------


async def test_a_container_whose_update_hangs_holds_up_no_other(lab: Lab, proxy: CriProxy) -> None:
    """Delays neither another pod nor, in the kernel, the pod's other containers."""
    going, asked = asyncio.Event(), asyncio.Event()
    await lab.run(
        pod("slow", container("c1", exactly("100m/32Mi")), container("c2", exactly("100m/32Mi"))),
        pod("quick", container("c1", exactly("100m/32Mi"))),
    )
    slow = statuses(await lab.get("slow"))["c1"]["containerID"].partition("://")[2]

    async def hang(request: Any) -> Any:
        if request.container_id == slow:
            asked.set()
            await going.wait()
        return await proxy.forward("UpdateContainerResources", request)

    proxy.answers["UpdateContainerResources"] = hang
    try:
        larger = exactly("200m/64Mi")
        await lab.patch("slow", patch_of({"c1": larger, "c2": larger}))
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        await lab.patch("quick", patch_of({"c1": larger}))
        await lab.verify(await settled(lab, "quick"))
        assert lab.host(await lab.get("slow"), "c1").memory == 64 * MIB
    finally:
        going.set()
    await lab.verify(await settled(lab, "slow"))


# --- numbers that are missing ---------------------------------------------------------------------------------------


async def test_missing_statistics_hold_up_no_resize(lab: Lab, proxy: CriProxy) -> None:
    seen = await lab.run(pod("p", container("c1", exactly("100m/64Mi"))))
    cid = statuses(seen)["c1"]["containerID"].partition("://")[2]
    book = lab.agent.runtime._inventory  # type: ignore[attr-defined]
    book.containers[cid].group = ""  # as for a container whose cgroup cannot be read

    async def none(request: Any) -> Any:
        raise Refusal(grpc.StatusCode.UNKNOWN, "failed to get stats")

    proxy.answers["ContainerStats"] = none
    await lab.patch("p", patch_of({"c1": exactly("100m/32Mi")}))
    assert lab.host(await settled(lab, "p"), "c1").memory == 32 * MIB
    assert proxy.count("ContainerStats") > 0


# --- helpers of the runtime inside of the pod's cgroup --------------------------------------------------------------


def memory_file(lab: Lab, seen: Object, name: str, file: str) -> Path:
    cid = "/" + statuses(seen)[name]["containerID"].partition("://")[2] if name else ""
    return Path("/sys/fs/cgroup/memory" if V1 else "/sys/fs/cgroup", f"{lab.group(seen)[1:]}{cid}", file)


@pytest.fixture
def helper() -> Iterator[Callable[[str, int], None]]:
    """Runs a process in a pod's cgroup that uses so much memory, as CRI-O's conmon and runc do."""
    started: list[subprocess.Popen[bytes]] = []

    def run(group: str, mib: int) -> None:
        procs = Path("/sys/fs/cgroup/memory" if V1 else "/sys/fs/cgroup") / group[1:] / "cgroup.procs"
        text = f"held = bytearray(b'x') * ({mib} << 20); print('holding', flush=True); import time; time.sleep(1000)"
        shell = f'echo $$ > {procs}; exec {sys.executable} -S -c "$0"'
        made = subprocess.Popen(["/bin/sh", "-c", shell, text], stdout=subprocess.PIPE)
        started.append(made)
        assert made.stdout is not None and made.stdout.readline() == b"holding\n"

    yield run
    for item in started:
        item.kill()
        item.wait()


@pytest.mark.skipif(not V1, reason="cgroup v2 keeps processes out of groups that have groups of their own")
async def test_a_pod_too_small_for_the_runtimes_helpers_reports_it(
    lab: Lab, helper: Callable[[str, int], None]
) -> None:
    seen = await lab.run(pod("p", container("c1", exactly("100m/64Mi"))))
    await asyncio.to_thread(helper, lab.group(seen), 24)
    await lab.patch("p", patch_of({"c1": exactly("100m/20Mi")}))

    def explained(obj: Object | None) -> bool:
        shown = conditions(obj or {"status": {}}, "PodResizeInProgress").get("PodResizeInProgress") or {}
        return shown.get("reason") == "Error" and "held by processes of the container runtime" in shown["message"]

    await lab.until("p", explained, patience_s=PATIENCE_S)
    assert lab.host(seen).memory == 64 * MIB


@pytest.mark.skipif(not V1, reason="cgroup v2 keeps processes out of groups that have groups of their own")
async def test_a_container_that_the_runtimes_helpers_left_no_memory_for_reports_it(lab: Lab) -> None:
    """Moves containerd's shim to the cgroup where CRI-O's would be: all processes it starts are charged to the pod."""
    seen = await lab.run(pod("p", container("c1", exactly("100m/4Mi"))))
    cid = statuses(seen)["c1"]["containerID"].partition("://")[2]
    state = await lab.agent.runtime.container(cid)
    assert state is not None
    shim = Path(f"/proc/{state.pid}/stat").read_text().rpartition(")")[2].split()[1]
    memory_file(lab, seen, "", "cgroup.procs").write_text(shim)
    os.kill(state.pid, signal.SIGKILL)

    def explained(obj: Object | None) -> bool:
        shown = statuses(obj)["c1"]["state"].get("waiting", {}) if obj else {}
        return "killed a process of the container runtime in the pod's cgroup" in shown.get("message", "")

    waiting = await lab.until("p", explained, patience_s=PATIENCE_S)
    assert "memory limit of 4Mi" in statuses(waiting)["c1"]["state"]["waiting"]["message"]
