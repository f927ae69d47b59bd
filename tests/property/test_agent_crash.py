"""Kills the agent before and after every write of its ledger and every step of its runtime, in random resize plans.

After a restart the node must still honour its allocations, and must reach the state it would have reached without the
crash.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster import invariants
from tests.support.cluster.nodes import Cluster, TestNode

from podfit.agent.agent import Agent
from podfit.agent.decide.resize.kernel import milli_of_quota, milli_of_shares
from podfit.agent.pods.ledger import Ledger
from podfit.agent.runtimes.values import RUNNING
from podfit.api.pods.resources import pod_requests
from podfit.api.quantity import milli_of, units_of
from podfit.api.registry.kinds import POD
from podfit.api.resize.states import CPU, MEMORY, resized
from podfit.client.rest import Client

CPUS, MEMORY_MI = 4, 4096
CAPACITY = {"cpu": str(CPUS), "memory": f"{MEMORY_MI}Mi"}


class Crash(BaseException):
    """Stands for kill -9."""


@dataclass
class Doom:
    """Counts the moments at which a crash matters and crashes at one of them."""

    at: int = -1
    passed: int = 0
    dead: bool = False
    names: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Violated invariants; collected here because an agent survives exceptions."""

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(f"{what} (moment {self.passed})")

    def moment(self, name: str) -> None:
        if self.dead:
            raise Crash
        self.names.append(name)
        self.passed += 1
        if self.passed - 1 == self.at:
            self.dead = True
            raise Crash(name)


class MortalLedger(Ledger):
    doom: Doom

    def _write(self, lines: bytes, whole: bytes) -> None:
        self.doom.moment("before the ledger is written")
        super()._write(lines, whole)
        self.doom.moment("after the ledger was written")


class MortalClient(Client):
    """A dead agent reports nothing; the reports of a running agent must be true."""

    doom: Doom
    node: TestNode

    async def raw(self, method: str, path: str, *rest: Any, **more: Any) -> Any:
        if self.doom.dead:
            raise Crash
        answer = await super().raw(method, path, *rest, **more)
        if method == "PATCH" and path.endswith("/status") and "/pods/" in path:
            status_is_true(self.node, answer, self.doom)
        return answer


def status_is_true(node: TestNode, pod: dict[str, Any], doom: Doom) -> None:
    machine = node.machine.pods.get(pod["metadata"]["uid"])
    running = (
        {listed.config.name: listed for listed in machine.containers.values() if listed.state == RUNNING}
        if machine
        else {}
    )
    for shown in pod["status"].get("containerStatuses") or ():
        container = running.get(shown["name"])
        if container is None or "running" not in shown["state"]:
            continue
        resources, actual = shown["resources"], container.limits
        reported = (
            milli_of(resources["limits"][CPU]),
            units_of(resources["limits"][MEMORY]),
            milli_of(resources["requests"][CPU]),
        )
        held = (milli_of_quota(actual.cpu_quota_us or 0), actual.memory_bytes, milli_of_shares(actual.cpu_shares or 0))
        doom.check(reported == held, f"status of {shown['name']} claims {reported}, the machine has {held}")


def children_fit(node: TestNode, doom: Doom) -> None:
    for wrong in invariants.children_fit(node.machine):
        doom.check(False, wrong)


def promises_fit(agent: Agent, doom: Doom) -> None:
    held = [
        pod_requests(resized(record.pod, allocated))
        for record in agent.records.values()
        if (allocated := agent.ledger.allocated(record.uid)) is not None
    ]
    doom.check(sum(item[CPU].milli for item in held) <= CPUS * 1000, f"promised {held}")
    doom.check(sum(item[MEMORY].value for item in held) <= MEMORY_MI << 20, f"promised {held}")
    for wrong in invariants.accounts_add_up(agent):
        doom.check(False, wrong)


Pods = list[dict[str, Any]]
Patches = list[tuple[str, dict[str, Any]]]

# --- plans ---------------------------------------------------------------------------------------------------------


def size(rng: random.Random) -> dict[str, Any]:
    cpu, memory = rng.randrange(2, 24) * 100, rng.randrange(1, 20) * 64
    return {
        "requests": {"cpu": f"{cpu // 2}m", "memory": f"{memory // 2}Mi"},
        "limits": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"},
    }


def pod_of(rng: random.Random, name: str) -> dict[str, Any]:
    containers = []
    for number in range(rng.randrange(1, 4)):
        container: dict[str, Any] = {
            "name": f"c{number}",
            "image": "busybox:1",
            "command": ["sleep", "1d"],
            "resources": {
                "requests": {"cpu": "100m", "memory": "64Mi"},
                "limits": {"cpu": "200m", "memory": "128Mi"},
            },
        }
        if rng.random() < 0.25:
            resource = rng.choice(["cpu", "memory"])
            container["resizePolicy"] = [{"resourceName": resource, "restartPolicy": "RestartContainer"}]
        containers.append(container)
    spec = {
        "nodeName": "node1",
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": containers,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def plan_of(seed: int) -> tuple[Pods, Patches]:
    rng = random.Random(seed)
    pods = [pod_of(rng, name) for name in ("a", "b")]
    patches = []
    for _ in range(3):
        pod = rng.choice(pods)
        chosen = [container for container in pod["spec"]["containers"] if rng.random() < 0.8] or pod["spec"][
            "containers"
        ][:1]
        body = {"spec": {"containers": [{"name": entry["name"], "resources": size(rng)} for entry in chosen]}}
        patches.append((pod["metadata"]["name"], body))
    return pods, patches


# --- one run -------------------------------------------------------------------------------------------------------


async def run(plan: tuple[Pods, Patches], at: int, folder: Path) -> tuple[Any, Doom]:
    pods, patches = plan
    doom = Doom(at)
    async with Cluster(folder) as cluster:
        node = TestNode(cluster, "node1", {"capacity": CAPACITY})
        cluster.nodes.append(node)
        node.machine.hooks.append(lambda when, what, who, how: step(node, doom, when, what))
        await begin(node, doom)
        for pod in pods:
            await cluster.client.create(POD, pod)
            await settle(node, doom)
        for name, body in patches:
            await cluster.resize(name, body)
            await settle(node, doom)
        await node.pass_time(400, 200)
        end = await outcome(cluster, node, [pod["metadata"]["name"] for pod in pods])
    return end, doom


def step(node: TestNode, doom: Doom, when: str, what: str) -> None:
    if when == "after" and what.startswith(("update", "start", "run", "stop")):
        children_fit(node, doom)
    doom.moment(f"{when} {what}")


async def begin(node: TestNode, doom: Doom) -> None:
    client = MortalClient(node.cluster.client.transport)
    client.doom, client.node = doom, node
    ledger = MortalLedger(node.config.data_dir / "ledger", durable=False)
    ledger.doom = doom
    node.runtime = type(node.runtime)(node.cluster.clock, node.machine)
    node.agent = Agent(client, node.runtime, node.config, node.cluster.clock, ledger=ledger)
    await node.start()


async def settle(node: TestNode, doom: Doom) -> None:
    """Lets events happen; if the agent dies, another one takes over."""
    for _ in range(5):
        if doom.dead:
            await bury(node, doom)
            await begin(node, doom)
        await watchful(node, doom)
        if not doom.dead:
            promises_fit(node.agent, doom)
        await node.cluster.clock.advance(1.0)
    if doom.dead:
        await bury(node, doom)
        await begin(node, doom)
        await node.pass_time(5)


async def watchful(node: TestNode, doom: Doom) -> None:
    quiet = asyncio.ensure_future(node.quiet())
    while not quiet.done() and not doom.dead:
        await asyncio.sleep(0)
    if not quiet.done():
        quiet.cancel()
    await asyncio.gather(quiet, return_exceptions=True)


async def bury(node: TestNode, doom: Doom) -> None:
    node.up = False
    await node.agent._core.queue.stop()
    await node.agent._tasks.stop()
    await node.runtime.close()
    doom.dead, doom.at = False, -1


async def outcome(cluster: Cluster, node: TestNode, names: list[str]) -> Any:
    found: dict[str, Any] = {}
    for name in names:
        pod = await cluster.pod(name)
        assert pod["status"]["phase"] == "Running", f"{name}: {pod['status']}"
        machine = node.machine.pods[pod["metadata"]["uid"]]
        status = pod["status"]
        found[name] = {
            "pod": machine.limits,
            "containers": sorted(
                (container.config.name, container.limits)
                for container in machine.containers.values()
                if container.state == RUNNING
            ),
            "shown": [
                (container_status["name"], container_status["allocatedResources"], container_status["resources"])
                for container_status in status["containerStatuses"]
            ],
            "restarts": [container_status["restartCount"] for container_status in status["containerStatuses"]],
            "level": status["resources"],
            "conditions": [
                (condition["type"], condition["status"], condition.get("reason"), condition.get("message"))
                for condition in status["conditions"]
            ],
            "observed": status["observedGeneration"],
            "allocated": node.agent.ledger.allocated(pod["metadata"]["uid"]),
            "actuated": node.agent.ledger.actuated(pod["metadata"]["uid"]),
        }
    return found


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 24))]


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_crash_at_any_moment_leads_to_the_same_end(
    seed: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", "podfit")
    await survives_every_crash(plan_of(seed), tmp_path)


async def test_a_container_restarted_for_its_size_is_not_taken_for_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """On SIGTERM it exits with 0: under OnFailure only the ledger records that it must be started again."""
    caplog.set_level("CRITICAL", "podfit")
    pod = pod_of(random.Random(0), "a")
    first = pod["spec"]["containers"][0]
    first["command"] = ["sh", "-c", "trap 'exit 0' TERM; sleep 1d"]
    first["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    pod["spec"]["containers"], pod["spec"]["restartPolicy"] = [first], "OnFailure"
    sizes = [
        {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": f"{limit}Mi"}}
        for limit in (256, 192)
    ]
    patches = [("a", {"spec": {"containers": [{"name": "c0", "resources": entry}]}}) for entry in sizes]
    expected, doom = await survives_every_crash(([pod], patches), tmp_path)
    assert doom.names.count("after stop_container") == 2
    assert expected["a"]["restarts"] == [2]


async def survives_every_crash(plan: tuple[Pods, Patches], folder: Path) -> tuple[Any, Doom]:
    expected, doom = await run(plan, -1, folder / "calm")
    assert doom.passed > 10
    assert not doom.wrong
    for at in range(doom.passed):
        end, crashed = await run(plan, at, folder / str(at))
        assert not crashed.wrong, f"crash {doom.names[at]} (moment {at})"
        assert end == expected, f"crash {doom.names[at]} (moment {at})"
    return expected, doom
