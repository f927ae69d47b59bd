"""Measures the memory reflex: from a container's use of nine tenths of its memory limit to a larger limit in its
cgroup.

API server, node agent (real cgroups, durable ledger) and updater run in this process, as in `podfit up`. A program
in a pod crosses the threshold at a time that it records itself; its own limit is read until it grows.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.support.cluster.reflexes import MI, Reflexive, reflexive

from bench.reporting import Row, percentile, print_table, spread_ms
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.registry.kinds import POD
from podfit.client.rest import STRATEGIC

ROUNDS = 30
STEP = """
import mmap, os, sys, time
os.environ.clear()
area = mmap.mmap(-1, 400 << 20)
used = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
at, page, limit = 0, 4096, int(sys.argv[1]) << 20
while used() < limit * 0.80:
    for _ in range(64):
        area[at] = 1
        at += page
print("waiting", flush=True)
time.sleep(1.0)
crossed = time.time()
while used() < limit * 0.93:
    for _ in range(256):
        area[at] = 1
        at += page
print("crossed", repr(crossed), repr(time.time()), flush=True)
time.sleep(3600)
"""


def limit_file(uid: str) -> Path:
    """The limit of the pod's container, on cgroup v1 or v2."""
    names, roots = ("memory.limit_in_bytes", "memory.max"), (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
    groups = [found for root in roots for found in root.glob(f"podfit-reflex-*/**/*{uid}*/*") if found.is_dir()]
    return next(group / name for group in groups for name in names if (group / name).exists())


def grown_at(file: Path, before: int) -> float:
    """The time at which the limit had changed. Polls in a thread, so that the event loop is left to the components."""
    while int(file.read_text()) == before:
        time.sleep(0.001)
    return time.time()


async def once(world: Reflexive, number: int) -> float:
    """Seconds from crossing the threshold to the larger limit."""
    name = f"step-{number}"
    python = os.path.realpath(sys.executable)
    made = await world.pod(name, [python, "-S", "-E", "-c", STEP, "256"], limit="256Mi", most="1Gi")
    uid = made["metadata"]["uid"]
    while uid not in world.agent.records or "waiting" not in await world.output(uid):
        await asyncio.sleep(0.02)
    raised = await asyncio.to_thread(grown_at, limit_file(uid), 256 * MI)
    while "crossed" not in (text := await world.output(uid)):
        await asyncio.sleep(0.005)
    began, ended = (float(word) for word in text.split("crossed ")[1].split()[:2])
    await world.runtime.remove_pod(uid)
    # From 80 to 93 % of the limit, at a constant rate.
    return raised - (began + (ended - began) * 10 / 13)


async def by_hand(world: Reflexive) -> list[float]:
    """Seconds from a PATCH of `/resize` to the cgroup, in the same run: the lower bound for the reflex."""
    made = await world.pod("by-hand", ["sleep", "3600"], reflex=False)
    uid = made["metadata"]["uid"]
    await world.until("by-hand", lambda pod: pod["status"].get("phase") == "Running")
    found = []
    for size in range(65, 65 + ROUNDS):
        resources = {kind: {"memory": f"{size}Mi"} for kind in ("requests", "limits")}
        seen = asyncio.create_task(asyncio.to_thread(grown_at, limit_file(uid), (size - 1) * MI))
        began = time.time()
        patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        await world.client.patch(POD, "default", "by-hand", patch, "resize", STRATEGIC)
        found.append(await seen - began)
        await asyncio.sleep(0.02)
    return found


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            async with reflexive(Path(folder)) as world:
                plain = await by_hand(world)
                times = [await once(world, number) for number in range(ROUNDS)]
        except RuntimeFailure as error:
            print(f"no cgroups to write here: {error}")
            return
    rows = [
        Row("limit crossed → larger limit in the kernel", spread_ms(times), "p50 ≤ 30 ms"),
        Row("a resize by hand in the same run, PATCH → the container's cgroup", spread_ms(plain)),
        Row("the reflex as a multiple of that", f"{percentile(times, 0.5) / percentile(plain, 0.5):.1f}"),
        Row("load average", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"),
    ]
    print_table(f"Memory reflex ({ROUNDS} crossings)", rows)


if __name__ == "__main__":
    asyncio.run(main())
