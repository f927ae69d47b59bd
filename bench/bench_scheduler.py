"""Measures how fast pods are placed: 5,000 nodes and 100,000 pods in the snapshot, decisions only, CPU time of one
core.

The garbage collector runs as rarely as in the scheduler's process: a full collection with a snapshot of this size takes
as long as some thousand placements.

python bench/bench_scheduler.py [--nodes 5000] [--pods 100000] [--place 5000]
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from typing import Any

from podfit.api.objects import Object
from podfit.kit.process import garbage
from podfit.scheduler.decide.board import Board, Placed
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.pod.pods import resident

OWNER = "o"


def node(number: int) -> Object:
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % 5}"}
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {},
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "250"}},
    }


def pod(name: str, app: str, cpu: str, memory: str, **spec: Any) -> Object:
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}
    return {"metadata": meta, "spec": {"containers": containers, **spec}, "status": {"phase": "Running"}}


def filled(nodes: int, pods: int) -> Board:
    board = Board(Snapshot(), seed=1)
    for number in range(nodes):
        board.snapshot.put_node(node(number))
    meta, selector = {"name": OWNER, "namespace": "default"}, {"matchLabels": {"app": OWNER}}
    board.owners.owning_set(None, {"kind": "ReplicaSet", "metadata": meta, "spec": {"selector": selector}})
    draw = random.Random(1)
    for number in range(pods):
        cpu, memory = f"{draw.choice((100, 250, 500, 1000))}m", f"{draw.choice((128, 256, 512, 1024))}Mi"
        one = pod(f"old-{number}", f"app-{number % 500}", cpu, memory)
        board.snapshot.put_pod(resident(one, f"node-{draw.randrange(nodes)}"))
    return board


def mixes(count: int) -> Iterator[tuple[str, list[Object]]]:
    """Workloads of `count` pods: identical ones, one ReplicaSet, many sizes, a zone selector, spread constraints, and
    anti-affinity."""
    yield "one shape", [pod(f"a-{n}", "a", "100m", "128Mi") for n in range(count)]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": OWNER, "uid": "u", "controller": True}
    owned = [pod(f"o-{n}", OWNER, "100m", "128Mi") for n in range(count)]
    for one in owned:
        one["metadata"]["ownerReferences"] = [owner]
    yield "of one set", owned
    yield "50 shapes", [pod(f"b-{n}", f"b{n % 50}", f"{100 + n % 50}m", "128Mi") for n in range(count)]
    zone = {"topology.kubernetes.io/zone": "zone-1"}
    yield "node selector", [pod(f"c-{n}", "c", "100m", "128Mi", nodeSelector=zone) for n in range(count)]
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "d"}},
        }
    ]
    yield "zone spread", [pod(f"d-{n}", "d", "100m", "128Mi", topologySpreadConstraints=spread) for n in range(count)]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "e"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    some = min(count, 1000)
    yield "one a node", [pod(f"e-{n}", "e", "100m", "128Mi", affinity=apart) for n in range(some)]


def place(board: Board, pods: list[Object]) -> float:
    """CPU seconds to decide and assume the placement of all of them."""
    began = time.process_time()
    for one in pods:
        verdict = board.place(one)
        assert isinstance(verdict, Placed), verdict
        board.snapshot.put_pod(resident(one, verdict.node))
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--place", type=int, default=5000)
    given = parser.parse_args()
    garbage.collect_rarely()
    began = time.process_time()
    board = filled(given.nodes, given.pods)
    print(f"snapshot of {given.nodes} nodes, {given.pods} pods: {time.process_time() - began:.1f} s")
    garbage.freeze_existing_objects()
    for name, pods in mixes(given.place):
        seconds = place(board, pods)
        print(f"{name:>14}: {len(pods) / seconds:8.0f} placements/s ({seconds / len(pods) * 1e6:.0f} us each)")


if __name__ == "__main__":
    main()
