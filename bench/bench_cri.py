"""Pods in a real containerd: how much time podfit adds to the bare CRI calls, and what an idle agent costs.

Bare calls and pods of podfit take turns, so that both run under the same load; the ratio is what counts.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.containers.containerd import Containerd, missing

from bench.barecri import BarePod, BareRuntime
from bench.cluster import PODS, Agent, Cluster, cluster, pod, running
from bench.reporting import Row, percentile, print_table, spread_ms
from podfit.agent.runtimes.values import Limits
from podfit.api.objects import Object

STARTS, RESIZES, IDLE = 15, 40, 100
COMMAND = ["sleep", "100000"]
MIB = 1 << 20
LIMITED, SMALL = Limits(10, 20_000, 64 * MIB), Limits(10, 5_000, 64 * MIB)
_POLL_S = 0.0003

CAPACITY = ("--node-cpu", "64", "--node-memory", "64Gi")


def containers(count: int, limits: Limits = LIMITED) -> list[Object]:
    resources: Object = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    if limits.cpu_quota_us:
        resources["limits"] = {"cpu": f"{limits.cpu_quota_us // 100}m", "memory": "64Mi"}
    return [
        {
            "name": f"c{number}",
            "image": "host",
            "imagePullPolicy": "IfNotPresent",
            "command": COMMAND,
            "resources": resources,
        }
        for number in range(count)
    ]


def sized(count: int, milli: int, memory: int) -> Object:
    """The patch that resizes all containers."""
    limits = {"cpu": f"{milli}m", **({"memory": f"{memory}Mi"} if memory else {})}
    changes = [{"name": f"c{number}", "resources": {"limits": limits}} for number in range(count)]
    return {"spec": {"containers": changes}}


def converged(wanted: Object) -> Callable[[Object], bool]:
    amounts = [one["resources"]["limits"] for one in wanted["spec"]["containers"]]

    def check(one: Object) -> bool:
        status = one["status"]
        shown = [each.get("resources", {}).get("limits", {}) for each in status.get("containerStatuses") or ()]
        if len(shown) != len(amounts):
            return False
        if any(not want.items() <= has.items() for want, has in zip(amounts, shown, strict=True)):
            return False
        return not any(found["type"].startswith("PodResize") for found in status.get("conditions") or ())

    return check


class Quotas:
    """The files with the CPU limits of a pod's containers."""

    def __init__(self, uid: str) -> None:
        names, roots = ("cpu.cfs_quota_us", "cpu.max"), (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
        groups = [group for root in roots for group in root.glob(f"podfit*/**/*pod{uid}*/*") if group.is_dir()]
        files = [group / name for group in groups for name in names if (group / name).exists()]
        # The sandbox has its own cgroup, without a limit.
        self._files = [file for file in files if file.read_text().split()[0] not in ("-1", "max")]

    def all_are(self, milli: int) -> bool:
        return bool(self._files) and all(int(file.read_text().split()[0]) == milli * 100 for file in self._files)


async def start(at: Cluster, name: str, limits: Limits) -> float:
    began = time.perf_counter()
    await at.send("POST", PODS, pod(name, containers=containers(1, limits)))
    return await at.seen(name, running) - began


async def starts(at: Cluster, bare: BareRuntime) -> list[Row]:
    rows = []
    for words, limits in (("without limits", Limits(10)), ("CPU limit 200m", LIMITED), ("CPU limit 50m", SMALL)):
        made, ours = [], []
        for number in range(STARTS):
            made.append(await bare.run(limits))
            ours.append(await start(at, f"s{number}", limits))
        alone = [one.seconds for one in made]
        # Waits for the deletion: a pod that is still terminating would delay the start of the next one.
        for one in made:
            await bare.remove(one)
        for number in range(STARTS):
            await at.send("DELETE", f"{PODS}/s{number}")
        await at.gone([f"s{number}" for number in range(STARTS)])
        await bare.emptied()
        rows += [
            Row(f"POST pod → Running, {words}", spread_ms(ours)),
            _ratio("RunPodSandbox + CreateContainer + StartContainer", ours, alone, "≤ 1.2"),
        ]
    return rows


def _ratio(what: str, ours: list[float], bare: list[float], goal: str) -> Row:
    ours_s, bare_s = percentile(ours, 0.5), percentile(bare, 0.5)
    return Row(
        f"… as a multiple of the bare {what}", f"{ours_s / bare_s:.2f} (that takes {bare_s * 1000:.0f} ms)", goal
    )


async def resize(at: Cluster, name: str, change: Object, milli: int, quotas: Quotas) -> tuple[float, float]:
    """Seconds from sending the PATCH until the cgroups of all containers, and the status, have the new size."""
    began, times = time.perf_counter(), {}

    async def in_kernel() -> None:
        while not quotas.all_are(milli):
            await asyncio.sleep(_POLL_S)
        times["cgroup"] = time.perf_counter() - began

    async def shown() -> None:
        times["status"] = await at.seen(name, converged(change)) - began

    await asyncio.gather(at.send("PATCH", f"{PODS}/{name}/resize", change), in_kernel(), shown())
    return times["cgroup"], times["status"]


async def resizes(at: Cluster, bare: BareRuntime) -> list[Row]:
    rows = []
    for words, count, memory in (("CPU", 1, False), ("CPU and memory", 1, True), ("CPU and memory", 3, True)):
        name = f"r{count}-{memory}".lower()
        await at.send("POST", PODS, pod(name, containers=containers(count)))
        uid = (await _seen(at, name))["metadata"]["uid"]
        quotas, reference = Quotas(uid), await bare.run(LIMITED, count)
        alone, ours, late = await _turns(at, bare, name, count, memory, quotas, reference)
        cgroup, status = [one[0] for one in ours], [one[1] for one in ours]
        whose = f"{words} of {count} container{'s' if count > 1 else ''}"
        call = "UpdateContainerResources" if count == 1 else f"{count} UpdateContainerResources, all at once"
        rows += [
            Row(f"PATCH → cgroup, {whose}", spread_ms(cgroup), "p50 ≤ 6 ms"),
            Row(f"PATCH → status, {whose}", spread_ms(status)),
            _ratio(call, status, alone, "≤ 1.5"),
            Row("… and until the runtime has it, too", spread_ms([a + b for a, b in zip(status, late, strict=True)])),
        ]
        await bare.remove(reference)
        await at.send("DELETE", f"{PODS}/{name}")
        await at.gone([name])
    return rows


async def _seen(at: Cluster, name: str) -> Object:
    await at.seen(name, running)
    return at.pods[name]


async def _turns(
    at: Cluster, bare: BareRuntime, name: str, count: int, memory: bool, quotas: Quotas, reference: BarePod
) -> tuple[list[float], list[tuple[float, float]], list[float]]:
    """Seconds of the bare calls; of podfit's resize up to cgroup and status; and from then until the runtime reports
    the size."""
    alone, ours, late = [], [], []
    for number in range(RESIZES):
        milli, mebibytes = 200 + 100 * (number % 2 == 0), (64 + 32 * (number % 2 == 0)) if memory else 0
        alone.append(await bare.update(reference, milli, mebibytes * MIB))
        ours.append(await resize(at, name, sized(count, milli, mebibytes), milli, quotas))
        # The runtime has finished all calls before the next turn, so that none delays the bare calls.
        began = time.perf_counter()
        for one in at.pods[name]["status"]["containerStatuses"]:
            await bare.recorded(one["containerID"].partition("://")[2], milli, mebibytes * MIB)
        late.append(time.perf_counter() - began)
    return alone, ours, late


# --- an agent in its own process
async def idle(endpoint: str, folder: Path) -> list[Row]:
    async with cluster("--runtime", "fake") as at:
        arguments = ("--runtime", "cri", "--container-runtime-endpoint", endpoint, "--stop-pods", *CAPACITY)
        agent = Agent(folder / "agent", at.process.folder / "admin.kubeconfig", "apart", *arguments)
        try:
            await _fill(at, agent)
            await asyncio.sleep(15)
            cpu, began = agent.cpu_s(), time.perf_counter()
            await asyncio.sleep(60)
            share = (agent.cpu_s() - cpu) / (time.perf_counter() - began)
            return [
                Row(f"podfit agent, idle with {IDLE} containers", f"{share * 100:.2f} % of a core", "≤ 1 %"),
                Row(f"memory of podfit agent with {IDLE} containers", f"{agent.memory_mib():.0f} MiB", "≤ 70 MiB"),
            ]
        finally:
            agent.stop()


async def _fill(at: Cluster, agent: Agent) -> None:
    names = [f"i{number}" for number in range(IDLE)]
    for name in names:
        await at.send("POST", PODS, pod(name, containers=containers(1), nodeName="apart"))
    for name in names:
        await at.seen(name, running)


@asynccontextmanager
async def containerd() -> AsyncIterator[Containerd]:
    with tempfile.TemporaryDirectory(prefix="podfit-bench-cri-") as folder:
        made = Containerd(Path(folder) / "containerd")
        await asyncio.to_thread(made.start)
        try:
            yield made
        finally:
            await asyncio.to_thread(made.stop)


async def measure(parts: list[str]) -> None:
    rows: list[Row] = []
    async with containerd() as runtime:
        arguments: tuple[Any, ...] = ("--runtime", "cri", "--container-runtime-endpoint", runtime.endpoint)
        bare = BareRuntime(runtime.endpoint, runtime.folder / "bare")
        if not parts or {"starts", "resizes"} & set(parts):
            async with cluster(*arguments, *CAPACITY, "--stop-pods") as at:
                rows += await starts(at, bare) if not parts or "starts" in parts else []
                rows += await resizes(at, bare) if not parts or "resizes" in parts else []
        await bare.close()
        rows += await idle(runtime.endpoint, runtime.folder) if not parts or "idle" in parts else []
    print_table("Real containers (containerd, durable, TLS)", rows)


if __name__ == "__main__":
    if why := missing():
        print(f"no containerd here: {why}")
        sys.exit(0)
    asyncio.run(measure(sys.argv[1:]))
