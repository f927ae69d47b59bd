"""Measures the time from created to bound: creates pods over several connections, until the last one has its node.

Everything runs (TLS, durable store, controllers, scheduler) except agents: the nodes are API objects only, so the
measurement ends at the binding. The clients run in this process, the cluster in another one.

python -m bench.bench_bind [--pods 2000] [--nodes 100] [--clients 16]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator

from bench.cluster import PODS, Cluster, cluster, pod
from bench.reporting import Row, percentile, print_table
from podfit.api.objects import Object


def node(number: int) -> Object:
    name = f"node-{number}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    room = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": None}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


async def make_nodes(at: Cluster, count: int) -> None:
    for number in range(count):
        await at.send("POST", "/api/v1/nodes", node(number))
    # A new node has the taint not-ready until the controllers remove it; here it is removed at once.
    for number in range(count):
        await at.send("PATCH", f"/api/v1/nodes/node-{number}", {"spec": {"taints": None}})


def bound(one: Object) -> bool:
    return bool(one["spec"].get("nodeName"))


async def send(at: Cluster, names: Iterator[str], made: dict[str, float]) -> None:
    for name in names:
        await at.send("POST", PODS, pod(name))
        made[name] = time.perf_counter()


async def measure(pods: int, nodes: int, clients: int) -> None:
    async with cluster("--nodes", "0", "--runtime", "fake") as at:
        await make_nodes(at, nodes)
        names = [f"p-{number}" for number in range(pods)]
        made: dict[str, float] = {}
        queue = iter(names)
        began, cpu = time.perf_counter(), at.process.cpu_s()
        senders = [asyncio.ensure_future(send(at, queue, made)) for _ in range(clients)]
        waits = [at.seen(name, bound) for name in names]
        found = await asyncio.gather(*waits)
        await asyncio.gather(*senders)
        whole, spent = max(found) - began, at.process.cpu_s() - cpu
        late = [max(0.0, when - made[name]) for name, when in zip(names, found, strict=True)]
    rows = [
        Row("created", f"{pods / (max(made.values()) - began):.0f}/s"),
        Row("created and bound", f"{pods / whole:.0f}/s ({spent / pods * 1e3:.2f} ms of processor a pod)", "≥ 500/s"),
        Row("answered → seen bound", f"p50 {percentile(late, 0.5):.2f} s, p99 {percentile(late, 0.99):.2f} s"),
    ]
    print_table(f"Created to bound: {pods} pods, {nodes} nodes, {clients} connections (durable, TLS)", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--clients", type=int, default=16)
    given = parser.parse_args()
    asyncio.run(measure(given.pods, given.nodes, given.clients))


if __name__ == "__main__":
    main()
