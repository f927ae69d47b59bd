"""Measures how fast a Deployment of 40 replicas is created, and rolled out to another template.

Everything runs: TLS, durable store and ledger, scheduler, controllers, and real cgroups where the machine has them.
"""

from __future__ import annotations

import asyncio
import time

from bench.cluster import Cluster, best_runtime, cluster, pod
from bench.reporting import Row, print_table
from podfit.api.objects import Object

REPLICAS = 40
DEPLOYMENTS = "/apis/apps/v1/namespaces/bench/deployments"
_POLL_S = 0.02


def deployment(mark: str) -> Object:
    made = pod("template")
    template = {"metadata": {"labels": {"app": "web"}, "annotations": {"mark": mark}}, "spec": made["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {**template, "spec": {**template["spec"], "terminationGracePeriodSeconds": 1}},
        },
    }


async def rolled_out(at: Cluster) -> None:
    """Waits until `kubectl rollout status` would report success and no pod of the old template is left."""
    while True:
        found = await at.send("GET", f"{DEPLOYMENTS}/web")
        status = found.get("status") or {}
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        if status.get("observedGeneration") == found["metadata"]["generation"] and counts == [REPLICAS] * 3:
            return
        await asyncio.sleep(_POLL_S)


async def timed(at: Cluster, method: str, path: str, body: Object) -> tuple[float, float]:
    """Seconds until the rollout was complete, and CPU seconds of the whole system during it."""
    began, cpu = time.perf_counter(), at.process.cpu_s()
    await at.send(method, path, body)
    await asyncio.wait_for(rolled_out(at), 50)
    return time.perf_counter() - began, at.process.cpu_s() - cpu


async def measure() -> None:
    runtime = best_runtime()
    async with cluster("--runtime", runtime, "--node-cpu", "64", "--node-memory", "64Gi", "--stop-pods") as at:
        made, made_cpu = await timed(at, "POST", DEPLOYMENTS, deployment("one"))
        change = {"spec": {"template": {"metadata": {"annotations": {"mark": "two"}}}}}
        rolled, rolled_cpu = await timed(at, "PATCH", f"{DEPLOYMENTS}/web", change)
    rows = [
        Row(f"{REPLICAS} replicas created and available", f"{made:.2f} s ({made_cpu:.2f} s of processor)"),
        Row(f"{REPLICAS} replicas rolled out", f"{rolled:.2f} s ({rolled_cpu:.2f} s of processor)", "≤ 2 s"),
    ]
    print_table(f"Roll-out ({runtime} runtime, durable, TLS)", rows)


def main() -> None:
    asyncio.run(measure())


if __name__ == "__main__":
    main()
