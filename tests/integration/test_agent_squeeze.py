"""The squeeze probe on a node: lowers memory.high while there is no pressure, raises it again, and reports the
working set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster

from podfit.agent.runtimes.values import Usage
from podfit.agent.squeeze import squeeze as probing
from podfit.api.pods.squeeze import ANNOTATION, MEMORY, found_in
from podfit.api.registry.kinds import POD

MI = 1 << 20
NEEDS = 120 * MI


class Kernel:
    """Readings of a cgroup v2 kernel for a container that uses 256 MiB and needs 120."""

    def __init__(self) -> None:
        self.brakes: list[int | None] = []
        self.stalled = 0

    async def memory_stall(self, container_id: str) -> int | None:
        high = self.brakes[-1] if self.brakes else None
        if high is not None and high < NEEDS:
            self.stalled += 10**6
        return self.stalled

    async def hold_memory(self, container_id: str, bytes: int | None) -> None:
        self.brakes.append(bytes)

    async def container_usage(self, container_id: str) -> Usage:
        high = self.brakes[-1] if self.brakes else None
        return Usage(0.0, memory_bytes=min(256 * MI, high or 256 * MI))


async def test_a_container_is_squeezed_until_it_stalls_and_the_brake_is_lifted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "SETTLE_S", 0.0)
    monkeypatch.setattr(probing, "STEP_S", 0.0)
    async with Cluster(tmp_path) as cluster:
        node = await cluster.node()
        kernel = Kernel()
        for name in ("memory_stall", "hold_memory", "container_usage"):
            monkeypatch.setattr(node.agent.runtime, name, getattr(kernel, name))
        container: Any = {"name": "main", "image": "i", "resources": {"limits": {"memory": "512Mi"}}}
        meta = {"name": "p", "annotations": {ANNOTATION: MEMORY}}
        spec = {"nodeName": "node1", "containers": [container], "automountServiceAccountToken": False}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await cluster.client.create(POD, made, "default")
        async for _, pod in cluster.client.watch(POD, "default"):
            if found := found_in(pod):
                break
        assert NEEDS <= found["main"] <= NEEDS * 1.1
        lowered = [brake for brake in kernel.brakes if brake is not None]
        assert kernel.brakes[-1] is None and lowered == sorted(lowered, reverse=True)
        assert any(chapter["what"] == "squeezed" for chapter in node.agent.story(pod["metadata"]["uid"]))
