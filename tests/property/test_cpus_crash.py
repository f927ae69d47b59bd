"""Kills the agent before and after every write of its checkpoint, ledger and runtime while CPUs are reassigned.

At no moment do two containers share an exclusive CPU, and the final state is that without the crash.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.property import test_agent_crash as crash
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.cpus import checkpoint
from podfit.agent.cpus.decide.sets import parse, text
from podfit.agent.cpus.decide.topology import regular
from podfit.agent.cpus.placement import StaticPolicy
from podfit.agent.decide.resize.allocate import NodePolicy
from podfit.agent.runtimes.values import RUNNING
from podfit.api.registry.kinds import POD

SHARED = "20m"
"""A limit that makes its container Burstable."""
CONFIG = {
    "capacity": {"cpu": "8", "memory": "16Gi"},
    "reserved": {"cpu": "1"},
    "cpu_topology": regular(1, 1, 4, 2),
    "policy": NodePolicy(cpu_manager="static", exclusive_cpus_resize=True),
}


def pod(name: str, *cpus: str) -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "image": "busybox:1", "command": ["sleep", "1d"], "resources": size(cpu)}
        for number, cpu in enumerate(cpus)
    ]
    spec = {
        "nodeName": "node1",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": containers,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def size(cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "64Mi"}
    return {"requests": {**amounts, "cpu": "10m"} if cpu == SHARED else amounts, "limits": amounts}


Step = tuple[str, Any]


def plan_of(seed: int) -> list[Step]:
    """Pods are created, resized and deleted, never with more CPUs than there are, so that every step succeeds."""
    if seed == 0:
        return [
            ("create", pod("shared", SHARED)),
            ("create", pod("a", "2", "1")),
            ("resize", ("a", ["1", "3"])),
            ("create", pod("b", "2")),
            ("delete", "a"),
            ("resize", ("b", ["4"])),
        ]
    rng = random.Random(seed)
    steps: list[Step] = [("create", pod("shared", SHARED))]
    sizes: dict[str, list[int]] = {}
    for number in range(6):
        left = 6 - sum(map(sum, sizes.values()))
        if sizes and rng.random() < 0.25:
            name = rng.choice(sorted(sizes))
            del sizes[name]
            steps.append(("delete", name))
        elif sizes and rng.random() < 0.6:
            name = rng.choice(sorted(sizes))
            room = left + sum(sizes[name])
            first = rng.randint(1, room - len(sizes[name]) + 1)
            sizes[name] = [first] if len(sizes[name]) == 1 else [first, rng.randint(1, room - first)]
            steps.append(("resize", (name, [str(item) for item in sizes[name]])))
        elif left > 1:
            sizes[f"p{number}"] = [1] * rng.randint(1, min(2, left - 1))
            steps.append(("create", pod(f"p{number}", *map(str, sizes[f"p{number}"]))))
    return steps


def cpus_are_apart(node: TestNode, doom: crash.Doom, moment: str) -> None:
    """A container with CPUs in the checkpoint on disk shares them with no other container once it runs on them."""
    state = checkpoint.load(node.config.data_dir / checkpoint.FILE, "static")
    running = {
        (uid, item.config.name): parse(item.limits.cpuset_cpus)
        for uid, entry in node.machine.pods.items()
        for item in entry.containers.values()
        if item.state == RUNNING
    }
    for (uid, name), cpus in running.items():
        own = (state.assigned.get(uid) or {}).get(name) if state is not None else None
        for other, theirs in running.items():
            if own is not None and cpus <= own and other != (uid, name) and cpus & theirs:
                doom.check(False, f"{moment}: {name} and {other[1]} share {text(cpus & theirs)}")


async def run(steps: list[Step], at: int, folder: Path, patch: pytest.MonkeyPatch) -> tuple[Any, crash.Doom]:
    doom = crash.Doom(at)
    save = checkpoint.save

    def mortal(*given: Any, **more: Any) -> None:
        doom.moment("before the checkpoint is written")
        save(*given, **more)
        doom.moment("after the checkpoint was written")

    patch.setattr(checkpoint, "save", mortal)

    def step(when: str, what: str) -> None:
        if when == "after":
            cpus_are_apart(node, doom, what)
        doom.moment(f"{when} {what}")

    async with Cluster(folder) as cluster:
        node = TestNode(cluster, "node1", CONFIG)
        cluster.nodes.append(node)
        node.machine.hooks.append(lambda when, what, who, how: step(when, what))
        doom.at = -1
        await crash.begin(node, doom)
        doom.at, doom.passed = at, 0
        doom.names.clear()
        for kind, what in steps:
            if kind == "create":
                await cluster.client.create(POD, what)
            elif kind == "delete":
                await cluster.client.delete(POD, "default", what)
            else:
                name, cpus = what
                containers = [{"name": f"c{i}", "resources": size(cpu)} for i, cpu in enumerate(cpus)]
                await cluster.resize(name, {"spec": {"containers": containers}})
            await crash.settle(node, doom)
        await node.pass_time(400, 200)
        end = outcome(node)
        doom.at = -1  # the agent's writes when it is stopped come after the end
    return end, doom


def outcome(node: TestNode) -> Any:
    policy = node.agent.cpus
    assert isinstance(policy, StaticPolicy)
    names = {uid: item.config.name for uid, item in node.machine.pods.items()}
    return {
        "runs on": sorted(
            (names[uid], item.config.name, item.config.attempt, item.limits.cpuset_cpus)
            for uid, entry in node.machine.pods.items()
            for item in entry.containers.values()
            if item.state == RUNNING
        ),
        "assigned": {
            names.get(uid, uid): {name: text(cpus) for name, cpus in sorted(policy.cpus.of(uid).items())}
            for uid in policy.uids()
        },
        "shared": text(policy.cpus.pool),
    }


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
async def test_a_crash_at_any_moment_leaves_cpus_apart_and_leads_to_the_same_end(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", "podfit")
    monkeypatch.setattr(crash, "CPUS", 7)
    monkeypatch.setattr(crash, "MEMORY_MI", 16 << 10)
    steps = plan_of(seed)
    with monkeypatch.context() as patch:
        expected, doom = await run(steps, -1, tmp_path / "calm", patch)
    assert not doom.wrong and expected["assigned"] is not None
    assert doom.names.count("after the checkpoint was written") >= 4
    for at in range(doom.passed):
        with monkeypatch.context() as patch:
            end, crashed = await run(steps, at, tmp_path / str(at), patch)
        assert not crashed.wrong, f"crash {doom.names[at]} (moment {at})"
        assert end == expected, f"crash {doom.names[at]} (moment {at})"
