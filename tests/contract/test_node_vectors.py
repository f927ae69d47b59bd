"""Replays recorded scenarios of a Kubernetes node against podfit's agent: same end states, same resize conditions and
Events, same order of cgroup changes.

The fake runtime simulates the recorded programs in virtual time. The rules of comparison are in
`tests.support.cluster.recordings`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster, TestNode
from tests.support.cluster.recordings import (
    PAGE,
    check_events,
    check_order,
    differences,
    is_artefact,
    recorded_changes,
    weightless,
)

from podfit.agent.runtimes.fake.load import Curve
from podfit.agent.runtimes.fake.node import FakeContainer
from podfit.agent.runtimes.fake.program import read_program
from podfit.agent.runtimes.values import MIN_SHARES, LimitsChange
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC

VECTORS = Path(os.environ.get("PODFIT_VECTORS", Path(__file__).parents[2] / ".." / "shared" / "vectors")) / "node"
FILES = sorted(VECTORS.glob("*.json"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {VECTORS}")


# --- programs -------------------------------------------------------------------------------------------------------


def play(container: FakeContainer) -> None:
    """Simulates a recorded command: how long it runs, how much memory it holds, and whether it handles SIGTERM."""
    text = " ".join(container.config.command)
    again = container.config.attempt > 0 and "[ -e /d/x ]" in text
    if again or "head -c" in text or "while" in text:
        stop = "0" if "trap 'exit 0' TERM" in text else "ignore"
        container.program = read_program(("sleep", "1d"), {"podfit.dev/fake-stop": stop})
    elif "[ -e /d/x ]" in text:
        container.program = read_program(("sh", "-c", text.rpartition("touch /d/x;")[2].strip()), {})
    held = re.search(r"head -c (\d+)", text)
    if held and not again:
        size = float(held[1])
        # Reading into a variable briefly takes more memory than the variable holds afterwards.
        points = [(0.0, size * 1.2), (1.0, size * 1.2), (1.001, size * 1.015)]
        container.memory = Curve([(0.0, 1e6), (30.0, 1e6), (30.001, size * 1.2)] if "/d/go" in text else points)


# --- the order of cgroup changes ------------------------------------------------------------------------------------

FIELDS = (
    ("memory.limit_in_bytes", "memory_bytes"),
    ("cpu.shares", "cpu_shares"),
    ("cpu.cfs_quota_us", "cpu_quota_us"),
)


Changes = dict[str, list[tuple[str, str, int]]]
"""Changes by pod: whose cgroup, which file, which value."""


class Machine:
    """Reads the fake runtime's journal and lists the values that changed, in order."""

    def __init__(self, node: TestNode) -> None:
        self.node, self.values, self.names = node, {}, {}
        self.rows: list[tuple[str, str, str, int]] = []
        node.machine.hooks.append(self.hook)

    def hook(self, when: str, operation: str, subject: str, argument: Any) -> None:
        if when != "after":
            return
        if operation == "run_pod":
            self.names[subject] = (argument.name, "(pod)")
            self._learn(subject, argument.limits)
        elif operation == "create_container":
            container = self.node.machine.containers[subject]
            play(container)
            pod = self.node.machine.pods[container.pod_uid].config.name
            suffix = f"#{argument.attempt}" if argument.attempt else ""
            self.names[subject] = (pod, argument.name + suffix)
            self._learn(subject, argument.limits)
            self.rows.append((pod, argument.name + suffix, "(cgroup)", 1))
        elif operation in ("update_pod", "update_container"):
            self._update(subject, argument)

    def _learn(self, subject: str, limits: Any) -> None:
        for file, name in FIELDS:
            self.values[subject, file] = getattr(limits, name)

    def _update(self, subject: str, change: LimitsChange) -> None:
        for file, name in FIELDS:
            value = getattr(change, name)
            if value is not None and self.values[subject, file] != value:
                self.values[subject, file] = value
                pod, who = self.names[subject]
                self.rows.append((pod, who, file, value // PAGE if name == "memory_bytes" else value))

    def take(self) -> Changes:
        grouped: Changes = {}
        for pod, who, file, value in self.rows:
            grouped.setdefault(pod, []).append((who, file, value))
        self.rows = []
        return grouped


# --- the player -----------------------------------------------------------------------------------------------------


class Player:
    def __init__(self, scenario: dict[str, Any], cluster: Cluster, node: TestNode) -> None:
        self.scenario, self.cluster, self.node = scenario, cluster, node
        self.manifests = {
            manifest["metadata"]["name"]: manifest for manifest in scenario["manifests"] if manifest["kind"] == "Pod"
        }
        self.machine = Machine(node)
        self.said: list[tuple[str, str, str]] = []
        self.killed = False
        self.artefact = False
        """Whether upstream left a pod's cgroup behind, in this step or an earlier one."""
        self.cgroups: dict[str, dict[str, Any]] = {}
        """The recorded state at the end of the previous step."""
        self.expected: Changes = {}
        self.listen()

    def listen(self) -> None:
        events = self.node.agent.events
        original = events.emit

        def say(pod: dict[str, Any], type: str, reason: str, message: str, container: str = "") -> None:
            self.said.append((pod["metadata"]["name"], reason, message))
            original(pod, type, reason, message, container)

        events.emit = say  # type: ignore[method-assign]

    def namespace(self, name: str) -> str:
        return str(self.manifests[name]["metadata"].get("namespace") or "default")

    async def prepare(self) -> None:
        spaces = {self.namespace(name) for name in self.manifests}
        for space in spaces:
            await self.cluster.namespace(space)
        for manifest in self.scenario["manifests"]:
            if manifest["kind"] == "Pod":
                continue
            kind = kind_named(manifest["kind"])
            body = json.loads(json.dumps(manifest))
            if kind.namespaced:
                body["metadata"].setdefault("namespace", next(iter(spaces)))
            await self.cluster.client.create(kind, body)

    async def patch(self, name: str, body: Any) -> dict[str, Any]:
        try:
            answer = await self.cluster.client.patch(POD, self.namespace(name), name, body, "resize", STRATEGIC)
        except ApiError as error:
            return {"code": error.code, "message": error.message}
        return {"code": 200, "generation": answer["metadata"]["generation"]}

    async def act(self, step: dict[str, Any]) -> Any:
        do, body = step["do"], step.get("body")
        names = re.findall(r"pod/([\w-]+)", do)
        if "checkpoint files were deleted" in (step.get("note") or ""):
            self.node.agent.ledger.path.unlink(missing_ok=True)
        if do.startswith("create"):
            return await self._create(names, body)
        if do.startswith("patch resize of all"):
            return [await self.patch(name, body) for name in self.manifests]
        if do.startswith("patch resize") and "killed" in do:
            return await self._patch_and_kill(names[0], body, do)
        if do.startswith("patch resize"):
            bodies = body if isinstance(body, list) else [body]
            answers = []
            for entry in bodies:
                answers.append(await self.patch(names[0], entry))
                if " 0 ms" not in do and len(bodies) > 1:
                    await self.node.quiet()
            if "delete at once" in do:
                await self.node.quiet()
                await self.cluster.client.delete(POD, self.namespace(names[0]), names[0])
            return answers if isinstance(body, list) else answers[0]
        if do.startswith("put resize"):
            return await self._put(names[0], body)
        if do.startswith("delete"):
            await self.cluster.client.delete(POD, self.namespace(names[0]), names[0])
        elif do == "stop node agent":
            await self.node.stop()
        elif do == "start node agent":
            self.node.up = True
            await self._start()
        return None

    async def _create(self, names: list[str], body: Any) -> Any:
        answers = []
        for name in names:
            manifest = self.manifests[name]
            created = await self.cluster.client.create(POD, json.loads(json.dumps(manifest)))
            answers.append({"code": 201, "generation": created["metadata"]["generation"]})
            if len(names) > 1:
                # One second apart where age matters: times in the API are whole seconds.
                await self.node.pass_time(1)
        if body is not None:
            return await self.patch(names[0], body)
        return answers[0] if len(answers) == 1 else answers

    async def _put(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        pod = await self.cluster.client.get(POD, self.namespace(name), name)
        for container in pod["spec"]["containers"]:
            if container["name"] in body:
                container["resources"] = body[container["name"]]
        pod["metadata"].setdefault("labels", {}).update(body.get("labels") or {})
        answer = await self.cluster.client.update(POD, pod, "resize")
        return {"code": 200, "generation": answer["metadata"]["generation"]}

    async def _start(self) -> None:
        self.node.up = False
        self.node.runtime = type(self.node.runtime)(self.cluster.clock, self.node.machine)
        self.node.agent = self.node._agent()
        self.listen()
        await self.node.start()

    async def _patch_and_kill(self, name: str, body: Any, do: str) -> dict[str, Any]:
        """Kills the agent at that moment: none of its later work happens."""
        dead = False

        def die() -> None:
            nonlocal dead
            dead = True
            raise asyncio.CancelledError

        def hook(when: str, operation: str, subject: str, argument: Any) -> None:
            if dead or (when == "before" and "allocated checkpoint" in do and operation.startswith(("update", "stop"))):
                die()
            if when == "after" and operation == "update_pod" and "pod cgroup" in do:
                die()
            if when == "after" and operation == "update_container" and "container's cgroup" in do:
                die()

        ledger = self.node.agent.ledger
        written = ledger._write

        def write(data: bytes) -> None:
            if dead:
                raise asyncio.CancelledError
            written(data)
            reported = ledger.actuated(self.uid(name)).containers
            if "actuated checkpoint" in do and reported == ledger.allocated(self.uid(name)).containers:
                die()

        ledger._write = write  # type: ignore[method-assign]
        self.node.machine.hooks.append(hook)
        answer = await self.patch(name, body)
        for _ in range(200):
            await asyncio.sleep(0)
        self.node.machine.hooks.remove(hook)
        self.node.up = False
        dead = True
        await self.node.agent._core.queue.stop()
        await self.node.agent._tasks.stop()
        self.killed = True
        return answer

    async def wait(self, step: dict[str, Any]) -> None:
        """Waits as long as a step without other actions states, or until its condition holds."""
        later = re.match(r"(\d+) s later", step["do"])
        if later:
            await self.node.pass_time(float(later[1]))
        elif step["do"].startswith("wait"):
            await self.node.pass_time(20)

    def uid(self, name: str) -> str:
        record = next(entry for entry in self.node.agent.records.values() if entry.name == name)
        return record.uid

    async def weightless(self, names: Iterable[str]) -> dict[str, set[str]]:
        found = {}
        for name in names:
            pod = await self.cluster.client.find(POD, self.namespace(name), name)
            found[name] = weightless(pod["spec"]) if pod is not None else set()
        return found

    async def comparable(self, changes: Changes, before: dict[str, set[str]]) -> Changes:
        """The values without the CPU shares that upstream and podfit set differently."""
        after = await self.weightless(changes)

        def differs(pod: str, who: str, file: str, value: int) -> bool:
            name = who.partition("#")[0]
            lost = name in after[pod] or (name in before.get(pod, ()) and value == MIN_SHARES)
            return file == "cpu.shares" and lost

        return {pod: [row for row in rows if not differs(pod, *row)] for pod, rows in changes.items()}

    async def problems(self, step: dict[str, Any]) -> list[str]:
        found = []
        for name, recorded in (step.get("final") or {}).get("pods", {}).items():
            pod = await self.cluster.client.find(POD, self.namespace(name), name)
            if pod is None:
                found.append(f"{name} is not there")
            else:
                found += [f"{name} {difference}" for difference in differences(recorded, pod, self.artefact)]
        return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_recorded_scenario_ends_the_same(file: Path, tmp_path: Path) -> None:
    scenario = json.loads(file.read_text())
    if any(manifest["kind"] == "Pod" and "nodeName" not in manifest["spec"] for manifest in scenario["manifests"]):
        pytest.skip("needs a scheduler: replayed with the whole control plane")
    if any(manifest["kind"] == "ResourceQuota" for manifest in scenario["manifests"]):
        pytest.skip("needs the quota controller: replayed with the whole control plane")
    allocatable = {key: text for key, text in scenario["node"]["allocatable"].items() if key != "pods"}
    async with Cluster(tmp_path, enable_admission=("PodResizeValidator",)) as cluster:
        node = await cluster.node(capacity=allocatable)
        node.machine.missing_images.add("registry.k8s.io/e2e-test-images/absent:1")
        player = Player(scenario, cluster, node)
        await player.prepare()
        for step in scenario["steps"]:
            await one_step(player, step)


def counted(node: TestNode) -> dict[str, float]:
    """All counters and gauges in Prometheus' format, without durations, which depend on the machine."""
    found: dict[str, float] = {}
    for family in node.agent.metrics.registry.collect():
        for sample in family.samples:
            # A kubelet omits a labelled gauge while it is 0.
            if family.type == "gauge" and sample.labels and not sample.value:
                continue
            if family.type in ("counter", "gauge"):
                labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def check_metrics(player: Player, step: dict[str, Any], before: dict[str, float]) -> None:
    if "metrics_delta" not in step:
        return
    known = player.scenario["metrics"].keys()
    after = counted(player.node)
    changes = {key: value - before.get(key, 0.0) for key, value in after.items() if key.partition("{")[0] in known}
    ours = {key: change for key, change in changes.items() if change}
    theirs = {key: change for key, change in step["metrics_delta"].items() if "duration" not in key}
    assert ours == theirs, step["do"]


async def one_step(player: Player, step: dict[str, Any]) -> None:
    before = counted(player.node)
    if not player.killed:
        player.said.clear()
        player.machine.take()
        player.expected = {}
    player.artefact = is_artefact(step)
    for pod, rows in recorded_changes(step, player.cgroups).items():
        player.expected.setdefault(pod, []).extend(rows)
    player.cgroups = (step.get("final") or {}).get("cgroups") or {}
    player.killed = False
    await player.node.pass_time(1)
    unweighed = await player.weightless(player.manifests)
    answer = await player.act(step)
    if player.killed:
        # The last reports and changes of the killed agent are compared together with those of the next agent.
        return
    expected = step.get("response")
    if isinstance(expected, dict) and isinstance(answer, dict):
        assert answer["code"] == expected["code"], f"{step['do']}: {answer} instead of {expected}"
        assert answer.get("generation") == expected.get("generation")

    await player.wait(step)

    async def done() -> bool:
        return not await player.problems(step)

    try:
        await player.node.until(done, 45)
    except AssertionError:
        problems = await player.problems(step)
        raise AssertionError(f"{step['do']}:\n" + "\n".join(problems)) from None
    await player.node.quiet()
    check_metrics(player, step, before)
    if step["do"].startswith(("patch resize", "put resize", "start node agent", "delete")):
        check_events(step, player.said)
        rows = player.machine.take()
        if not player.artefact:
            theirs, ours = [await player.comparable(item, unweighed) for item in (player.expected, rows)]
            check_order(step, theirs, ours)
