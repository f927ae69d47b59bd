"""A resize on containerd: the status shows what the kernel has, and no pod claims a resize that the runtime refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio

from podfit.agent.runtimes.cri.resize import resources
from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT
from podfit.cri import api_pb2 as api
from tests.support.containers.containerd import Containerd, missing
from tests.support.containers.criproxy import CriProxy, Refusal

from .seedpods import Kernel, Lab, conditions, container, exactly, is_settled, patch_of, pod, sizes, statuses

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("cri-answers"),
]
UPDATE = "UpdateContainerResources"
IN_PROGRESS = "PodResizeInProgress"
PATIENCE_S = 60.0


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def proxy(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CriProxy]:
    async with CriProxy(tmp_path_factory.mktemp("proxy"), containerd.endpoint) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def lab(proxy: CriProxy, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    options = {"runtime": "cri", "runtime_endpoint": proxy.endpoint, "scheduler": False}
    async with Lab(tmp_path_factory.mktemp("cri"), **options) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def cleared(lab: Lab, proxy: CriProxy) -> AsyncIterator[None]:
    yield
    proxy.answers.clear()
    await lab.clear()


async def settled(lab: Lab, name: str = "p") -> Object:
    return await lab.until(name, is_settled, patience_s=PATIENCE_S)


def limits(seen: Object, name: str = "c1") -> Object:
    found: Object = statuses(seen)[name]["resources"]["limits"]
    return found


async def reasons(lab: Lab, seen: Object) -> list[str]:
    """The messages of the pod's Events."""
    await lab.agent.idle()
    listed = (await lab.client.list(EVENT, "default"))["items"]
    return [event["reason"] for event in listed if event["involvedObject"].get("uid") == seen["metadata"]["uid"]]


async def test_cpu_and_memory_of_a_container_take_one_call_of_the_runtime(lab: Lab, proxy: CriProxy) -> None:
    await lab.run(pod("p", container("c1", exactly("100m/64Mi")), container("c2", exactly("100m/64Mi"))))
    before = proxy.count(UPDATE)
    await lab.patch("p", patch_of({"c1": exactly("200m/96Mi"), "c2": exactly("50m/32Mi")}))
    await lab.verify(await settled(lab))
    async with asyncio.timeout(PATIENCE_S):
        while proxy.count(UPDATE) < before + 2:
            await asyncio.sleep(0.01)
    assert proxy.count(UPDATE) == before + 2
    assert {entry.container_id for name, entry in proxy.seen if name == UPDATE} >= {
        status["containerID"].partition("://")[2] for status in statuses(await lab.get("p")).values()
    }


async def test_the_status_shows_the_kernels_limits_while_the_runtime_is_silent(
    lab: Lab, proxy: CriProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "UPDATE_S", 300.0)
    seen = await lab.run(pod("p", container("c1", exactly("100m/64Mi"))))
    answer = asyncio.Event()

    async def wait(request: Any) -> Any:
        await answer.wait()
        return await proxy.forward(UPDATE, request)

    proxy.answers[UPDATE] = wait
    await lab.patch("p", patch_of({"c1": exactly("200m/96Mi")}))

    def shown(obj: Object | None) -> bool:
        return obj is not None and limits(obj) == {"cpu": "200m", "memory": "96Mi"} and IN_PROGRESS in conditions(obj)

    during = await lab.until("p", shown, patience_s=PATIENCE_S)
    assert (lab.host(during, "c1").quota_us, lab.host(during, "c1").memory) == (20_000, 96 << 20)
    assert "ResizeCompleted" not in await reasons(lab, seen)
    answer.set()
    await lab.verify(await settled(lab))


async def test_a_resize_that_the_runtime_refuses_is_reverted_and_reports_the_reason(lab: Lab, proxy: CriProxy) -> None:
    seen = await lab.run(pod("p", container("c1", exactly("100m/64Mi")), container("c2", exactly("100m/64Mi"))))
    second = statuses(seen)["c2"]["containerID"].partition("://")[2]

    def now() -> list[Kernel]:
        return [lab.host(seen, name) for name in ("", "c1", "c2")]

    before = now()

    async def refuse(request: api.UpdateContainerResourcesRequest) -> Any:
        if request.container_id == second:
            raise Refusal(grpc.StatusCode.UNKNOWN, "a plugin forbids it")
        return await proxy.forward(UPDATE, request)

    proxy.answers[UPDATE] = refuse
    await lab.patch("p", patch_of({"c1": exactly("150m/96Mi"), "c2": exactly("50m/32Mi")}))

    def failed(obj: Object | None) -> bool:
        condition = conditions(obj).get(IN_PROGRESS, {}) if obj is not None else {}
        return condition.get("reason") == "Error" and "a plugin forbids it" in condition["message"]

    after = await lab.until("p", failed, patience_s=PATIENCE_S)
    # The decrease was refused, so nothing grew, and the pod did not shrink.
    assert limits(after, "c1") == limits(after, "c2") == {"cpu": "100m", "memory": "64Mi"}
    async with asyncio.timeout(PATIENCE_S):
        while now() != before:  # a retry may be in progress
            await asyncio.sleep(0.01)
    assert "ResizeCompleted" not in await reasons(lab, seen)
    proxy.answers.clear()
    await lab.verify(await settled(lab))


async def test_resizes_in_quick_succession_end_with_the_last(lab: Lab, proxy: CriProxy) -> None:
    await lab.run(pod("p", container("c1", sizes("50m/32Mi", "100m/64Mi"))))
    for number in range(8):
        await lab.patch("p", patch_of({"c1": sizes("50m/32Mi", f"{100 + 50 * (number % 3)}m/{64 + 16 * number}Mi")}))
    seen = await settled(lab)
    await lab.verify(seen)
    cid = statuses(seen)["c1"]["containerID"].partition("://")[2]
    await asyncio.wait_for(lab.agent.runtime.confirmations.wait(seen["metadata"]["uid"]), PATIENCE_S)
    answer = await proxy.forward("ContainerStatus", api.ContainerStatusRequest(container_id=cid))
    linux = answer.status.resources.linux
    assert (linux.cpu_quota, linux.memory_limit_in_bytes) == (15_000, (64 + 16 * 7) << 20)
