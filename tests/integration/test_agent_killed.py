"""Faults on real cgroups: groups removed by other programs, and `kill -9` of an agent at random moments of resizes.

The API server and the agent are separate processes; the keeper and the pods outlive the agent.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster

from podfit.agent.agent import Agent
from podfit.agent.config import AgentConfig
from podfit.agent.decide.resize.kernel import milli_of_quota
from podfit.agent.pods.ledger import Ledger
from podfit.agent.runtimes.cgroups import detect
from podfit.agent.runtimes.process.runtime import ProcessRuntime
from podfit.agent.runtimes.values import RUNNING, RuntimeFailure
from podfit.api.quantity import milli_of, units_of
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError
from podfit.client.kubeconfig import load
from podfit.client.rest import STRATEGIC, Client
from podfit.client.transport import Unreachable

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root and writable cgroups")]
CPU_MILLI, MEMORY_MI = 1000, 1024

SERVER = """
import sys
from podfit.cli.main import main
sys.exit(main())
"""
AGENT = """
import asyncio, sys
from pathlib import Path
from podfit.agent.agent import Agent
from podfit.agent.config import AgentConfig
from podfit.agent.runtimes.process.runtime import ProcessRuntime
from podfit.client.rest import Client
from podfit.client.kubeconfig import load
folder, kubeconfig, root = sys.argv[1:]
async def main():
    config = AgentConfig("node1", Path(folder), capacity={"cpu": "1", "memory": "1Gi"})
    agent = Agent(Client(load(kubeconfig).transport("agent")), ProcessRuntime(Path(folder) / "r", root), config)
    await agent.start()
    await agent.synced.wait()
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def pod(name: str, *names: str, **spec: Any) -> dict[str, Any]:
    containers = [
        {
            "name": word,
            "image": "host",
            "command": ["sleep", "10000"],
            "resources": size(100, 32),
        }
        for word in names
    ]
    body = {
        "nodeName": "node1",
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": containers,
        **spec,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": body}


def size(cpu: int, memory: int) -> dict[str, Any]:
    return {
        "requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"},
        "limits": {"cpu": f"{2 * cpu}m", "memory": f"{2 * memory}Mi"},
    }


async def until(done: Callable[[], Awaitable[str]], limit_s: float = 30.0) -> None:
    """Polls `done`, which returns what is still missing, until that is ""."""
    end = asyncio.get_running_loop().time() + limit_s
    while missing := await done():
        assert asyncio.get_running_loop().time() < end, missing
        await asyncio.sleep(0.02)


# --- a cgroup vanishes ----------------------------------------------------------------------------------------------


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Agent, ProcessRuntime]]:
    async with Cluster(tmp_path) as cluster:
        runtime = ProcessRuntime(tmp_path / "runtime", cgroup_root=f"/podfit-faults-{secrets.token_hex(4)}")
        agent = Agent(cluster.client, runtime, AgentConfig("node1", tmp_path / "agent"))
        try:
            await agent.start()
        except RuntimeFailure as error:
            pytest.skip(f"no cgroups to write here: {error}")
        await asyncio.wait_for(agent.synced.wait(), 30)
        yield cluster, agent, runtime
        for uid in list(agent.records):
            await runtime.remove_pod(uid)
        await agent.stop()
        await runtime.purge()


async def pid_of(runtime: ProcessRuntime, uid: str) -> int:
    state = await runtime.pod(uid)
    return (
        next((container.pid for container in state.containers if container.state == RUNNING), 0)
        if state is not None
        else 0
    )


@pytest.mark.parametrize("whole", [False, True], ids=["container", "pod"])
async def test_a_removed_cgroup_is_recreated(real: tuple[Cluster, Agent, ProcessRuntime], whole: bool) -> None:
    cluster, _, runtime = real
    uid = (await cluster.client.create(POD, pod("p", "c")))["metadata"]["uid"]

    async def running() -> str:
        return "" if await pid_of(runtime, uid) else "not running"

    await until(running)
    first = await pid_of(runtime, uid)
    groups = detect()
    group = runtime._pods[uid].record.group
    # The process is moved to the root so that the groups can be removed; the agent is not notified.
    for file in groups.join_files(""):
        Path(file.replace("/tasks", "/cgroup.procs").replace("//", "/")).write_text(str(first))
    assert groups.remove(group if whole else groups.below(group)[0])
    await cluster.resize("p", {"spec": {"containers": [{"name": "c", "resources": size(200, 64)}]}})

    async def healed() -> str:
        status = (await cluster.pod("p"))["status"]
        pid = await pid_of(runtime, uid)
        shown = status["containerStatuses"][0]
        if pid in (0, first) or shown["restartCount"] != 1 or "running" not in shown["state"]:
            return str(status)
        limits = await runtime.pod_limits(uid)
        good = limits.cpu_quota_us == 40_000 and shown["resources"]["limits"]["cpu"] == "400m"
        return "" if good else f"{limits} {shown}"

    await until(healed)
    assert not os.path.exists(f"/proc/{first}")


# --- kill -9 --------------------------------------------------------------------------------------------------------


class Apart:
    """An API server and an agent, each a process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, f"/podfit-killed-{secrets.token_hex(4)}"
        self.kubeconfig = folder / "admin.kubeconfig"
        self.server: asyncio.subprocess.Process | None = None
        self.agent: asyncio.subprocess.Process | None = None

    async def _spawn(self, *words: str) -> asyncio.subprocess.Process:
        log = (self.folder / "log").open("ab")
        made = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdout=asyncio.subprocess.PIPE, stderr=log, env={**os.environ, **_path()}
        )
        assert made.stdout is not None
        async with asyncio.timeout(30):
            line = await made.stdout.readline()
        assert line.startswith(b"ready"), (self.folder / "log").read_text()[-2000:]
        return made

    async def start_server(self) -> None:
        words = ["--data-dir", str(self.folder / "server"), "--listen", "127.0.0.1:0", "--store", "sqlite"]
        self.server = await self._spawn("-c", SERVER, "apiserver", *words, "--kubeconfig", str(self.kubeconfig))

    async def start_agent(self) -> None:
        self.agent = await self._spawn("-c", AGENT, str(self.folder / "node"), str(self.kubeconfig), self.root)

    async def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.send_signal(signal.SIGKILL)
        await self.agent.wait()

    def ledger(self) -> Ledger:
        """The values that a new agent would read now."""
        copied = self.folder / "ledger-copy"
        copied.write_bytes((self.folder / "node" / "ledger").read_bytes())
        ledger = Ledger(copied, durable=False)
        ledger.load()
        ledger.close()
        return ledger

    async def close(self) -> None:
        for process in (self.agent, self.server):
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()
        runtime = ProcessRuntime(self.folder / "node" / "r", self.root)
        await runtime.open()
        await runtime.purge()
        await runtime.close()


def _path() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}


def kernel(root: str, uid: str) -> tuple[tuple[int, int], dict[str, tuple[int, int]]]:
    """(quota, memory) of the pod, and of its containers by id."""
    groups = detect()
    group = next(item for item in groups.below(root) if item.endswith(f"/pod{uid}"))
    found = {item: groups.limits(item) for item in (group, *groups.below(group))}
    values = {item.rpartition("/")[2]: (has.cpu_quota_us or 0, has.memory_bytes or 0) for item, has in found.items()}
    return values.pop(f"pod{uid}"), values


async def test_an_agent_killed_at_random_moments_keeps_every_allocation(tmp_path: Path) -> None:
    try:
        detect()
    except RuntimeFailure as error:
        pytest.skip(str(error))
    rng = random.Random(7)
    apart = Apart(tmp_path)
    await apart.start_server()
    client = Client(load(str(apart.kubeconfig)).transport("test"))
    try:
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "default"},
        }
        await client.create(kind_named("ServiceAccount"), account)
        await apart.start_agent()
        names = {"a": ("c", "d"), "b": ("c",)}
        uids = {name: (await client.create(POD, pod(name, *inner)))["metadata"]["uid"] for name, inner in names.items()}
        await until(lambda: converged(client, names))
        pids = {name: (await client.get(POD, "default", name))["status"]["containerStatuses"] for name in names}
        for _ in range(6):
            for name in names:
                await resize(client, rng, name, names[name])
            await asyncio.sleep(rng.random() * 0.03)
            await apart.kill_agent()
            await check(apart, client, uids)
            if rng.random() < 0.5:
                await resize(client, rng, "a", names["a"])
            await apart.start_agent()
            await until(lambda: truthful(apart, client, uids))
        for name in names:
            await resize(client, rng, name, names[name], fitting=True)
        await until(lambda: converged(client, names))
        assert not await truthful(apart, client, uids)
        await check(apart, client, uids)
        for name in names:
            shown = (await client.get(POD, "default", name))["status"]["containerStatuses"]
            assert [entry["containerID"] for entry in shown] == [entry["containerID"] for entry in pids[name]], (
                "it ran on"
            )
    finally:
        await client.close()
        await apart.close()


async def resize(client: Any, rng: random.Random, name: str, inner: tuple[str, ...], fitting: bool = False) -> None:
    most = 15 if fitting else 40
    sizes = [
        {"name": item, "resources": size(rng.randrange(2, most) * 10, rng.randrange(4, most) * 4)} for item in inner
    ]
    try:
        await client.patch(POD, "default", name, {"spec": {"containers": sizes}}, "resize", STRATEGIC)
    except (ApiError, Unreachable) as error:
        raise AssertionError(error) from error


async def converged(client: Any, names: dict[str, tuple[str, ...]]) -> str:
    for name in names:
        seen = await client.get(POD, "default", name)
        status = seen.get("status") or {}
        wanted = {container["name"]: container["resources"] for container in seen["spec"]["containers"]}
        shown = {
            container_status["name"]: container_status.get("resources")
            for container_status in status.get("containerStatuses") or ()
        }
        if wanted != shown or any("Resize" in condition["type"] for condition in status["conditions"]):
            return str(status)
    return ""


async def check(apart: Apart, client: Any, uids: dict[str, str]) -> None:
    """Whenever the agent died, its allocations fit the node, and containers fit their pod."""
    ledger = apart.ledger()
    promised = [entry for uid in uids.values() if (entry := ledger.allocated(uid)) is not None]
    assert len(promised) == len(uids)
    requests = [sizes["requests"] for entry in promised for sizes in entry.containers.values()]
    assert sum(milli_of(request["cpu"]) for request in requests) <= CPU_MILLI
    assert sum(units_of(request["memory"]) for request in requests) <= MEMORY_MI << 20
    for uid in uids.values():
        pod_has, containers = kernel(apart.root, uid)
        for kind in (0, 1):
            assert sum(container[kind] for container in containers.values()) <= pod_has[kind], (pod_has, containers)


async def truthful(apart: Apart, client: Any, uids: dict[str, str]) -> str:
    """A running agent reports the kernel's values, whether the resize was granted or is pending."""
    for name, uid in uids.items():
        _, containers = kernel(apart.root, uid)
        for shown in (await client.get(POD, "default", name))["status"]["containerStatuses"]:
            quota, memory = containers[shown["containerID"].partition("://")[2]]
            limits = shown["resources"]["limits"]
            if (milli_of(limits["cpu"]), units_of(limits["memory"])) != (milli_of_quota(quota), memory):
                return f"{shown} but the kernel has {quota} and {memory}"
    return ""
