"""Measures the whole path of a resize (PATCH, cgroup, status), sequentially and concurrently, and how fast pods start.

`podfit up` runs in its own process with TLS, the durable store and ledger, and real cgroups where the machine has
them. The references, a bare cgroup write and an fsync, are measured in the same run.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.cluster import PODS, Cluster, best_runtime, cluster, converged, pod, running, size
from bench.reporting import Row, percentile, print_table, spread_ms

RESIZES, MANY, STARTED, SINGLE = 300, 40, 100, 20
_POLL_S = 0.0003


class Quota:
    """The file that holds a container's CPU limit, on cgroup v1 or v2."""

    def __init__(self, uid: str) -> None:
        names = ("cpu.cfs_quota_us", "cpu.max")
        roots = [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")]
        groups = [found for root in roots for found in root.glob(f"podfit-*/**/*{uid}*/*") if found.is_dir()]
        self.path = next(group / name for group in groups for name in names if (group / name).exists())

    def microseconds(self) -> int:
        return int(self.path.read_text().split()[0])

    def write_s(self) -> float:
        """Seconds that the kernel needs to set a limit, here to its current value."""
        value = self.path.read_bytes()
        times = []
        for _ in range(200):
            began = time.perf_counter()
            handle = os.open(self.path, os.O_WRONLY)
            os.write(handle, value)
            os.close(handle)
            times.append(time.perf_counter() - began)
        return percentile(times, 0.5)


def fsync_s() -> float:
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(50):
            file.write(b"x" * 500)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return percentile(times, 0.5)


async def resize_once(at: Cluster, name: str, milli: int, quota: Quota | None) -> tuple[float, float, float]:
    """Seconds from sending the PATCH to its response, to the cgroup, and to the status."""
    began = time.perf_counter()
    times = {}

    async def answered() -> None:
        await at.send("PATCH", f"{PODS}/{name}/resize", size(milli))
        times["answer"] = time.perf_counter() - began

    async def in_kernel() -> None:
        while quota is not None and quota.microseconds() != milli * 100:
            await asyncio.sleep(_POLL_S)
        times["cgroup"] = time.perf_counter() - began

    async def shown() -> None:
        times["status"] = await at.seen(name, converged(milli)) - began

    await asyncio.gather(answered(), in_kernel(), shown())
    return times["answer"], times["cgroup"], times["status"]


async def one_by_one(at: Cluster, quota: Quota | None) -> list[Row]:
    cpu = at.process.cpu_s()
    times = [await resize_once(at, "p0", 200 + 100 * (number % 2 == 0), quota) for number in range(RESIZES)]
    cpu = at.process.cpu_s() - cpu
    answer, cgroup, status = zip(*times, strict=True)
    rows = [Row("PATCH /resize → answer", spread_ms(answer), "p50 ≤ 2.5 ms")]
    if quota is not None:
        kernel, disk = quota.write_s(), fsync_s()
        rows += [
            Row("PATCH → the container's cgroup", spread_ms(cgroup), "p50 ≤ 4 ms"),
            Row("… as a multiple of a bare cgroup write", _times(cgroup, kernel)),
            Row("… as a multiple of an fsync", _times(cgroup, disk)),
        ]
    return [
        *rows,
        Row("PATCH → status converged", spread_ms(status), "p50 ≤ 10 ms, p99 ≤ 30 ms"),
        Row("processor time of the whole system a resize", f"{cpu / RESIZES * 1000:.2f} ms"),
    ]


def _times(measured: tuple[float, ...], reference_s: float) -> str:
    return f"{percentile(measured, 0.5) / reference_s:.1f} (that takes {reference_s * 1e6:.0f} µs)"


async def at_once(at: Cluster, names: list[str]) -> Row:
    found = []
    for milli in (400, 500, 600, 700, 800):
        began = time.perf_counter()
        await asyncio.gather(*(resize_once(at, name, milli, None) for name in names))
        found.append(len(names) / (time.perf_counter() - began))
    return Row(f"{len(names)} pods resized at once", f"{percentile(found, 0.5):.0f} completed/s", "≥ 350/s")


async def start_pods(at: Cluster, names: list[str], **spec: Any) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(at.send("POST", PODS, pod(name, **spec)) for name in names))
    await asyncio.gather(*(at.seen(name, running) for name in names))
    return time.perf_counter() - began


async def remove(at: Cluster, names: list[str]) -> None:
    await asyncio.gather(*(at.send("DELETE", f"{PODS}/{name}") for name in names))
    await at.gone(names)


async def starts(at: Cluster) -> list[Row]:
    """Alternates between pods with their own network and pods in the host's, so that both run under the same load."""
    own, host = [], []
    for number in range(SINGLE):
        own.append(await start_pods(at, [f"single-{number}"]))
        host.append(await start_pods(at, [f"host-{number}"], hostNetwork=True))
    await remove(at, [f"{kind}-{number}" for kind in ("single", "host") for number in range(SINGLE)])
    return [
        Row("POST pod → Running, with a network of its own", spread_ms(own), "p50 ≤ 60 ms"),
        Row("… in the host's network", spread_ms(host)),
    ]


async def idle(at: Cluster, pods: int, seconds: float = 10.0) -> list[Row]:
    await asyncio.sleep(2)
    cpu, began = at.process.cpu_s(), time.perf_counter()
    await asyncio.sleep(seconds)
    share = (at.process.cpu_s() - cpu) / (time.perf_counter() - began)
    return [
        Row(f"all of podfit, idle with {pods} pods", f"{share * 100:.1f} % of a core", "≤ 1 %"),
        Row(f"memory of all of podfit with {pods} pods", f"{at.process.memory_mib():.0f} MiB", "≤ 150 MiB with 30"),
    ]


async def measure() -> None:
    runtime = best_runtime()
    capacity = ("--node-cpu", "64", "--node-memory", "64Gi", "--stop-pods")
    async with cluster("--runtime", runtime, *capacity) as at:
        rows = [Row("podfit up, start to ready", f"{at.process.started_s:.2f} s", "≤ 3 s")]
        rows += await starts(at)
        many = [f"p{number}" for number in range(MANY)]
        await start_pods(at, many)
        quota = Quota(at.pods["p0"]["metadata"]["uid"]) if runtime == "process" else None
        rows += await one_by_one(at, quota)
        rows.append(await at_once(at, many))
        await remove(at, many[30:])
        rows += await idle(at, 30)
        await remove(at, many[:30])
        hundred = [f"s{number}" for number in range(STARTED)]
        rows.append(Row(f"{STARTED} pods started", f"{await start_pods(at, hundred):.2f} s", "≤ 4 s"))
        rows += await idle(at, STARTED)
    print_table(f"Resizing in place ({runtime} runtime, durable, TLS)", rows)


def main() -> None:
    asyncio.run(measure())


if __name__ == "__main__":
    main()
