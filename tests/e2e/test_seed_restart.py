"""Pods keep running while podfit is stopped, are found again, and are removed when they are deleted."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from podfit.api.objects import Object
from podfit.compose_runtimes import remove_leftovers
from tests.e2e.conftest import KUBECTL, Running, eventually
from tests.e2e.parts import Part

from .noderuntimes import NodeRuntime
from .seedpods import (
    Lab,
    conditions,
    container,
    exactly,
    is_settled,
    kernel_at,
    needs_cgroups,
    patch_of,
    pod,
    policy,
    sizes,
    statuses,
)

pytestmark = [pytest.mark.root, needs_cgroups, pytest.mark.xdist_group("seed-restart")]
HIERARCHIES = Path("/sys/fs/cgroup")
NODE = ("--node-name", "n1", "--node-cpu", "4")


# --- podfit up in a process of its own ------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    asyncio.run(remove_leftovers(tmp_path))


def mark(folder: Path) -> str:
    return "podfit-" + hashlib.sha256(str(folder / "nodes" / "n1").encode()).hexdigest()[:8]


def groups(folder: Path) -> list[Path]:
    """Every cgroup of podfit, in every hierarchy."""
    return sorted(found for root in HIERARCHIES.glob(f"**/{mark(folder)}") for found in (root, *root.glob("**/pod*")))


def members(folder: Path) -> dict[int, str]:
    """Process ids of all pods with their start times: the same id and time is the same process."""
    files = [file for group in groups(folder) for file in group.glob("**/cgroup.procs")]
    pids = {int(line) for file in files for line in file.read_text().split()}
    return {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19] for pid in pids}


def alive(processes: dict[int, str]) -> bool:
    try:
        found = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in processes}
    except FileNotFoundError:
        return False
    return all(found[pid][19] == born and found[pid][0] != "Z" for pid, born in processes.items())


def leftovers(folder: Path) -> list[str]:
    """Cgroups, mounts and processes whose names contain the data directory's."""
    lines = Path("/proc/mounts").read_text().splitlines()
    found = [f"cgroup {group}" for group in groups(folder)]
    found += [f"mount {line}" for line in lines if str(folder) in line]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder) in command and int(entry.name) != os.getpid():
            found.append(f"process {entry.name} {command}")
    return found


def started(up: Running) -> dict[int, str]:
    """Two pods with three running containers, and their processes."""
    eventually(lambda: up.json("get", "sa")["items"], "the default service account exists")
    bodies = [
        pod("p1", container("c1", exactly("100m/64Mi")), container("c2", exactly("100m/64Mi"))),
        pod("p2", container("c1", sizes("100m/32Mi", "200m/64Mi"))),
    ]
    up.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))
    up.kubectl("wait", "--for=condition=Ready", "pod/p1", "pod/p2", "--timeout=60s")
    found = members(up.folder)
    assert len(found) >= 3
    return found


def shown(up: Running, name: str = "p1") -> Object:
    found: Object = up.json("get", "pod", name)
    return found


def identities(up: Running) -> list[tuple[str, int]]:
    listed = [status for name in ("p1", "p2") for status in statuses(shown(up, name)).values()]
    return [(entry["containerID"], entry["restartCount"]) for entry in listed]


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_pods_survive_a_killed_podfit_and_get_what_was_requested_meanwhile(
    node_runtime: NodeRuntime, folder: Path
) -> None:
    up = Running(folder, *NODE, *node_runtime.arguments).start()
    processes = started(up)
    before = identities(up)
    up.stop(signal.SIGKILL)
    assert alive(processes)
    # Only the API server runs: a user requests more, and no agent handles the request.
    server = Part("apiserver", "--data-dir", str(folder), "--listen", "127.0.0.1:0", ready=True)
    patch = json.dumps(patch_of({"c1": exactly("200m/96Mi"), "c2": exactly("50m/48Mi")}))
    up.kubectl("patch", "pod", "p1", "--subresource", "resize", "--patch", patch)
    server.stop()
    again = Running(folder, *NODE, *node_runtime.arguments, "--stop-pods").start()
    try:
        eventually(lambda: is_settled(shown(again)), "it is resized")
        seen = shown(again)
        assert statuses(seen)["c1"]["resources"] == exactly("200m/96Mi")
        below = "/kubepods" if node_runtime.kind == "cri" else ""
        group = f"/{mark(folder)}{below}/pod{seen['metadata']['uid']}"
        cid = statuses(seen)["c1"]["containerID"].partition("://")[2]
        assert kernel_at(f"{group}/{cid}").memory == 96 << 20
        assert kernel_at(group).memory == 144 << 20
        assert identities(again) == before
        assert alive(processes) and members(folder).keys() == processes.keys()
        assert again.kubectl("exec", "p1", "-c", "c2", "--", "echo", "still here").strip() == "still here"
    finally:
        again.stop()


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_a_clean_stop_leaves_pods_running_and_stop_pods_leaves_nothing(node_runtime: NodeRuntime, folder: Path) -> None:
    up = Running(folder, *NODE, *node_runtime.arguments).start()
    processes = started(up)
    before = identities(up)
    up.stop()
    assert alive(processes)
    again = Running(folder, *NODE, *node_runtime.arguments, "--stop-pods").start()
    assert identities(again) == before and alive(processes)
    again.stop()
    eventually(lambda: not leftovers(folder), f"nothing is left but {leftovers(folder)}", 10)
    assert not any(Path(f"/proc/{pid}").exists() for pid in processes)


# --- everything in this process -------------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Path]:
    yield tmp_path
    await remove_leftovers(tmp_path)


def small(folder: Path, **options: object) -> Lab:
    capacity = {"cpu": "1", "memory": "1Gi"}
    return Lab(folder, **{"store": "sqlite", "stop_pods": False, "node_capacity": capacity, "vpa": False, **options})


async def test_a_deferred_resize_waits_on_after_a_restart(node_runtime: NodeRuntime, disk: Path) -> None:
    async with small(disk, **node_runtime.options) as lab:
        await lab.run(
            pod("p1", container("c1", exactly("300m/64Mi"))), pod("p2", container("c1", exactly("600m/64Mi")))
        )
        await lab.patch("p1", patch_of({"c1": exactly("600m/64Mi")}))
        waiting = await lab.until("p1", lambda seen: bool(seen and conditions(seen).get("PodResizePending")))
    async with small(disk, stop_pods=True, **node_runtime.options) as lab:
        reported = conditions(await lab.get("p1"))["PodResizePending"]
        assert reported["lastTransitionTime"] == conditions(waiting)["PodResizePending"]["lastTransitionTime"]
        await lab.patch("p2", patch_of({"c1": exactly("200m/64Mi")}))
        for name in ("p2", "p1"):
            await lab.verify(await lab.settled(name))


async def test_a_resize_in_the_middle_of_a_restart_of_its_container_is_finished(
    node_runtime: NodeRuntime, disk: Path
) -> None:
    """The container ignores SIGTERM for two seconds, during which podfit stops."""
    stubborn = container(
        "c1", exactly("100m/64Mi"), "trap '' TERM; while :; do sleep 1; done", resizePolicy=policy("memory")
    )
    async with small(disk, **node_runtime.options) as lab:
        await lab.run(pod("p1", stubborn, restartPolicy="Always"))
        await lab.patch("p1", patch_of({"c1": exactly("100m/96Mi")}))
        await lab.until("p1", lambda seen: bool(seen and conditions(seen).get("PodResizeInProgress")))
    async with small(disk, stop_pods=True, **node_runtime.options) as lab:
        await lab.verify(await lab.settled("p1"), {"c1": 1})
