"""Pods that a stopped podfit left running are stopped by their data directory, whether it ran a whole cluster
or one node.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from podfit.agent.runtimes.process.runtime import ProcessRuntime
from podfit.agent.runtimes.process.support import check_support
from podfit.agent.runtimes.values import ContainerConfig, Limits, PodConfig
from podfit.compose_runtimes import RuntimeSettings, make_runtime, remove_leftovers
from podfit.kit.clock import RealClock


@pytest.mark.parametrize("node", ["nodes/n1", "."])
async def test_pods_left_behind_are_ended_with_their_groups(tmp_path: Path, node: str) -> None:
    if missing := check_support():
        pytest.skip("; ".join(missing))
    folder = (tmp_path / node).resolve()
    runtime = make_runtime(RuntimeSettings(), folder, RealClock())
    assert isinstance(runtime, ProcessRuntime)
    await runtime.open()
    await runtime.run_pod(PodConfig("u", "web", "default", "Burstable", Limits(512), "web", tmp_path / "logs"))
    command = ("sleep", "1000")
    config = ContainerConfig("c", 0, "host", command, (), {}, "", (), Limits(256), tmp_path / "logs" / "0.log")
    container = await runtime.create_container("u", config)
    await runtime.start_container(container)
    state = await runtime.container(container)
    await runtime.close()
    assert state is not None and os.path.exists(f"/proc/{state.pid}")
    assert await remove_leftovers(tmp_path) == 1
    assert not os.path.exists(f"/proc/{state.pid}")
    assert not runtime._cgroups.exists(runtime.cgroup_root)
