"""A pod's RuntimeClass chooses among several runtimes of a node."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from podfit.api.registry.kinds import kind_named
from tests.support.containers.containerd import Containerd, missing
from tests.support.containers.criproxy import CriProxy

from .noderuntimes import NodeRuntime
from .seedpods import Lab, container, exactly, patch_of, pod, statuses

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.xdist_group("cri-handlers"),
]


async def test_pods_go_to_the_runtime_of_their_handler_and_are_resized_there(
    node_runtime: NodeRuntime, containerd: Containerd, tmp_path: Path
) -> None:
    """One containerd reached by two endpoints; calls over the second are counted."""
    classes = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "apart"},
        "handler": "other",
    }
    async with CriProxy(tmp_path, containerd.endpoint) as second:

        async def plain(request: object) -> object:
            request.runtime_handler = ""  # type: ignore[attr-defined]
            return await second.forward("RunPodSandbox", request)

        second.answers["RunPodSandbox"] = plain
        options = {**node_runtime.options, "runtime_endpoints": {"other": second.endpoint}}
        async with Lab(tmp_path / "lab", scheduler=False, **options) as lab:
            await lab.client.create(kind_named("RuntimeClass"), classes)
            here = pod("here", container("c1", exactly("100m/64Mi")))
            there = pod("there", container("c1", exactly("100m/64Mi")), runtimeClassName="apart")
            await lab.run(here, there)
            assert [request.config.metadata.name for name, request in second.seen if name == "RunPodSandbox"] == [
                "there"
            ]
            for name in ("here", "there"):
                await lab.patch(name, patch_of({"c1": exactly("200m/96Mi")}))
                seen = await lab.settled(name)
                assert statuses(seen)["c1"]["resources"] == exactly("200m/96Mi")
                await lab.agent.runtime.confirmations.wait(seen["metadata"]["uid"])
            assert second.count("UpdateContainerResources") > 0
            node = await lab.client.get(kind_named("Node"), "", "n1")
            assert "other" in [handler["name"] for handler in node["status"]["runtimeHandlers"]]
            await lab.clear()
            async with asyncio.timeout(30):
                while lab.agent.records:
                    await asyncio.sleep(0.01)
            assert await lab.agent.runtime.pods() == []
