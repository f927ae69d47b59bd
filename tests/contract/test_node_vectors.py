"""Replays recorded scenarios of a Kubernetes node against our agent: same end states, same resize conditions and
Events, same order of cgroup changes.

The recordings' programs are played by the fake runtime in virtual time. What differs on purpose is written down as
rules below, each with its reason; none of them knows a scenario.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.base import Change
from podfit.agent.runtimes.fake_load import Curve
from podfit.agent.runtimes.fake_node import FakeContainer
from podfit.agent.runtimes.fake_program import read_program
from podfit.api.kinds import POD, kind_named
from podfit.api.quantity import Quantity
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.testing.nodes import Cluster, TestNode

VECTORS = Path(os.environ.get("PODFIT_VECTORS", Path(__file__).parents[2] / ".." / "shared" / "vectors")) / "node"
FILES = sorted(VECTORS.glob("*.json"))
UNLIMITED_V1 = "9007199254740988Ki"
PAGE = 4096

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {VECTORS}")


# --- programs -------------------------------------------------------------------------------------------------------


def play(container: FakeContainer) -> None:
    """Gives a recorded command the behaviour it had: how long it runs, what it holds, whether it hears SIGTERM."""
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
        # Reading into a variable takes more for a moment than the variable holds afterwards.
        points = [(0.0, size * 1.2), (1.0, size * 1.2), (1.001, size * 1.015)]
        container.memory = Curve([(0.0, 1e6), (30.0, 1e6), (30.001, size * 1.2)] if "/d/go" in text else points)


# --- what a recording shows of a pod --------------------------------------------------------------------------------


def shown_state(state: dict[str, Any]) -> str:
    if "running" in state:
        return "running"
    if "waiting" in state:
        return f"waiting:{state['waiting'].get('reason', '')}"
    return f"terminated:{state['terminated'].get('reason', '')}({state['terminated']['exitCode']})"


def shown_container(status: dict[str, Any]) -> dict[str, Any]:
    shown = {
        "name": status["name"],
        "state": shown_state(status["state"]),
        "ready": status["ready"],
        "restartCount": status["restartCount"],
    }
    for key in ("allocatedResources", "resources"):
        if key in status:
            shown[key] = status[key]
    if status.get("lastState"):
        shown["lastState"] = shown_state(status["lastState"])
    return shown


def shown_pod(pod: dict[str, Any]) -> dict[str, Any]:
    status = pod.get("status") or {}
    conditions = status.get("conditions") or []
    resize = [one for one in conditions if one["type"].startswith("PodResize")]
    shown = {
        "generation": pod["metadata"]["generation"],
        "observedGeneration": status.get("observedGeneration"),
        "phase": status.get("phase"),
        "reason": status.get("reason"),
        "message": status.get("message"),
        "initContainerStatuses": [shown_container(one) for one in status.get("initContainerStatuses") or ()],
        "containerStatuses": [shown_container(one) for one in status.get("containerStatuses") or ()],
        "resize": [
            {
                key: re.sub(r"usage \(\d+\)", "usage (<bytes>)", str(one[key])) if key == "message" else one[key]
                for key in ("type", "status", "reason", "message", "observedGeneration")
                if one.get(key)
            }
            for one in resize
        ],
        "conditions": {one["type"]: one["status"] for one in conditions if not one["type"].startswith("PodResize")},
    }
    level = {key: status[key] for key in ("allocatedResources", "resources") if key in status}
    if level:
        shown["statusPodLevel"] = level
    return shown


# --- rules: what may differ, and why --------------------------------------------------------------------------------


def crashed(container: dict[str, Any]) -> dict[str, Any]:
    """Between two runs a container may show `terminated` or `waiting: CrashLoopBackOff`: upstream shows both."""
    if container["state"] == "waiting:CrashLoopBackOff":
        return {**container, "state": "between runs", "lastState": None}
    if container["state"].startswith("terminated:"):
        return {**container, "state": "between runs", "lastState": None}
    return container


def whole_bytes(pod: dict[str, Any]) -> bool:
    """Upstream never finishes a resize to a size that is not a whole number of bytes; we do."""
    for resources in (pod.get("spec") or {}).values():
        for kind in ("requests", "limits"):
            text = (resources.get(kind) or {}).get("memory")
            if text and Quantity.parse(text).nanos % 10**9:
                return False
    return True


def all_limited(pod: dict[str, Any], name: str) -> bool:
    if name in ((pod.get("specPodLevel") or {}).get("limits") or {}):
        return True
    return all(name in (one.get("limits") or {}) for one in (pod.get("spec") or {}).values())


def level_resources(pod: dict[str, Any], recorded: dict[str, Any], ours: dict[str, Any]) -> tuple[Any, Any]:
    """Pod-level status: upstream's memory request is stale, small CPU values and unlimited v1 limits are artefacts,
    and after the end it shows what is left of a cgroup."""
    if pod["phase"] in ("Succeeded", "Failed"):
        return None, None
    kept: list[dict[str, Any]] = []
    for side in (recorded, ours):
        kept.append({kind: dict((side or {}).get(kind) or {}) for kind in ("requests", "limits")})
    theirs, mine = kept
    theirs["requests"].pop("memory", None)
    mine["requests"].pop("memory", None)
    if theirs["limits"].get("memory") == UNLIMITED_V1:
        del theirs["limits"]["memory"]
        mine["limits"].pop("memory", None)
    for name in ("cpu", "memory"):
        if not all_limited(pod, name):
            # The pod's cgroup has no limit then: upstream goes on showing the sum it saw first.
            theirs["limits"].pop(name, None)
            mine["limits"].pop(name, None)
    for kind in ("requests", "limits"):
        if "cpu" not in theirs[kind]:
            mine[kind].pop("cpu", None)
        if "memory" in theirs[kind] and "memory" in mine[kind]:
            theirs[kind]["memory"] = _pages(theirs[kind]["memory"])
            mine[kind]["memory"] = _pages(mine[kind]["memory"])
    return theirs, mine


def _pages(text: str) -> int:
    return Quantity.parse(text).value // PAGE


def is_artefact(step: dict[str, Any]) -> bool:
    """A restart for a resize in which upstream could not shrink the pod: cgroup v1 refuses a quota below that of a
    container on its way out, and the pod's memory was compared with what the ended container had used."""
    said = [(one["reason"], one["message"]) for one in step.get("events") or ()]
    restarted = any("resize requires restart" in message for _, message in said)
    return restarted and any(reason == "ResizeError" for reason, _ in said)


def differences(recorded: dict[str, Any], pod: dict[str, Any], artefact: bool = False) -> list[str]:
    ours = shown_pod(pod)
    found = []
    for key in ("generation", "observedGeneration", "phase", "reason", "message", "conditions"):
        if recorded.get(key) != ours.get(key):
            found.append(f"{key}: recorded {recorded.get(key)!r}, ours {ours.get(key)!r}")
    if list(recorded.get("conditions") or {}) != list(ours["conditions"]):
        found.append(f"order of conditions: {list(recorded['conditions'])} vs {list(ours['conditions'])}")
    for key in ("initContainerStatuses", "containerStatuses"):
        theirs = [crashed(one) for one in recorded.get(key) or ()]
        mine = [crashed(one) for one in ours.get(key) or ()]
        if theirs != mine:
            found.append(f"{key}: recorded {theirs}, ours {mine}")
    if recorded["resize"] != ours["resize"] and not (not whole_bytes(recorded) and not ours["resize"]):
        found.append(f"resize: recorded {recorded['resize']}, ours {ours['resize']}")
    theirs, mine = recorded.get("statusPodLevel") or {}, ours.get("statusPodLevel") or {}
    if theirs.get("allocatedResources", {}) != mine.get("allocatedResources", {}):
        found.append(f"pod allocated: {theirs.get('allocatedResources')} vs {mine.get('allocatedResources')}")
    left, right = level_resources(recorded, theirs.get("resources") or {}, mine.get("resources") or {})
    if left != right and not artefact:
        found.append(f"pod resources: recorded {left}, ours {right}")
    return found


def resize_events(said: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Those about resizes, in order; a failure that repeats counts once (we retry at another pace)."""
    kept: list[tuple[str, str, str]] = []
    for pod, reason, message in said:
        message = re.sub(r"usage \(\d+\)", "usage (<bytes>)", message)
        about = reason.startswith("Resize") or reason == "Preempting" or "resize requires restart" in message
        if about and (pod, reason, message) not in kept[-1:]:
            kept.append((pod, reason, message))
    return kept


def by_pod(rows: list[tuple[str, str, str]]) -> dict[str, list[tuple[str, str]]]:
    grouped: dict[str, list[tuple[str, str]]] = {}
    for pod, reason, message in rows:
        grouped.setdefault(pod, []).append((reason, message))
    return grouped


# --- the order of cgroup changes ------------------------------------------------------------------------------------

FIELDS = (
    ("memory.limit_in_bytes", "memory_bytes"),
    ("cpu.shares", "cpu_shares"),
    ("cpu.cfs_quota_us", "cpu_quota_us"),
)


class Machine:
    """Follows the fake's journal and tells which values changed, in order."""

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

    def _update(self, subject: str, change: Change) -> None:
        for file, name in FIELDS:
            value = getattr(change, name)
            if value is not None and self.values[subject, file] != value:
                self.values[subject, file] = value
                pod, who = self.names[subject]
                self.rows.append((pod, who, file, value // PAGE if name == "memory_bytes" else value))

    def take(self) -> dict[str, list[tuple[str, str, int]]]:
        grouped: dict[str, list[tuple[str, str, int]]] = {}
        for pod, who, file, value in self.rows:
            grouped.setdefault(pod, []).append((who, file, value))
        self.rows = []
        return grouped


def recorded_changes(step: dict[str, Any], before: dict[str, dict[str, Any]]) -> dict[str, list[tuple[str, str, int]]]:
    """Changes of pods and of containers that were there before; the first values of a new cgroup are its creation."""
    rows = step.get("cgroup_order") or []
    made = {row["who"] for row in rows if row["file"] == "(cgroup)" and row["value"] == "created"}
    grouped: dict[str, list[tuple[str, str, int]]] = {}
    for row in rows:
        pod, _, who = row["who"].partition("/")
        if not who or who == "(sandbox)" or row["value"] == "removed":
            continue
        if row["file"] == "(cgroup)" and who != "(pod)":
            grouped.setdefault(pod, []).append((who, "(cgroup)", 1))
        elif row["who"] not in made:
            value = int(row["value"])
            same = value in (2, (before.get(row["who"]) or {}).get("cpu.shares"))
            if step["do"] == "start node agent" and row["file"] == "cpu.shares" and same:
                # Without its files upstream first tells containers empty CPU values: shares dip and come back.
                continue
            value = value // PAGE if row["file"].startswith("memory") else value
            grouped.setdefault(pod, []).append((who, row["file"], value))
    return grouped


# --- the player -----------------------------------------------------------------------------------------------------


class Player:
    def __init__(self, scenario: dict[str, Any], cluster: Cluster, node: TestNode) -> None:
        self.scenario, self.cluster, self.node = scenario, cluster, node
        self.manifests = {one["metadata"]["name"]: one for one in scenario["manifests"] if one["kind"] == "Pod"}
        self.machine = Machine(node)
        self.said: list[tuple[str, str, str]] = []
        self.killed = False
        self.artefact = False
        """Upstream has left a pod's cgroup behind, in this step or one before."""
        self.cgroups: dict[str, dict[str, Any]] = {}
        """As recorded at the end of the step before."""
        self.expected: dict[str, list[tuple[str, str, int]]] = {}
        self.listen()

    def listen(self) -> None:
        notices = self.node.agent.notices
        original = notices.say

        def say(pod: dict[str, Any], type: str, reason: str, message: str) -> None:
            self.said.append((pod["metadata"]["name"], reason, message))
            original(pod, type, reason, message)

        notices.say = say  # type: ignore[method-assign]

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
            for one in bodies:
                answers.append(await self.patch(names[0], one))
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
                # One second apart where age decides: times in the API are whole seconds.
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
        """The agent is gone at that very moment: nothing after it happens."""
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
            told = ledger.actuated(self.uid(name)).containers
            if "actuated checkpoint" in do and told == ledger.allocated(self.uid(name)).containers:
                die()

        ledger._write = write  # type: ignore[method-assign]
        self.node.machine.hooks.append(hook)
        answer = await self.patch(name, body)
        for _ in range(200):
            await asyncio.sleep(0)
        self.node.machine.hooks.remove(hook)
        self.node.up = False
        dead = True
        await self.node.agent._workers.stop()
        await self.node.agent._tasks.stop()
        self.killed = True
        return answer

    async def wait(self, step: dict[str, Any]) -> None:
        """Steps that only wait say for how long, or for what: a program that needs its time."""
        later = re.match(r"(\d+) s later", step["do"])
        if later:
            await self.node.pass_time(float(later[1]))
        elif step["do"].startswith("wait"):
            await self.node.pass_time(20)

    def uid(self, name: str) -> str:
        record = next(one for one in self.node.agent.records.values() if one.name == name)
        return record.uid

    async def problems(self, step: dict[str, Any]) -> list[str]:
        found = []
        for name, recorded in (step.get("final") or {}).get("pods", {}).items():
            pod = await self.cluster.client.find(POD, self.namespace(name), name)
            if pod is None:
                found.append(f"{name} is not there")
            else:
                found += [f"{name} {one}" for one in differences(recorded, pod, self.artefact)]
        return found


def patches_of(step: dict[str, Any]) -> int:
    return len(step["body"]) if isinstance(step.get("body"), list) else 1


def check_events(step: dict[str, Any], said: list[tuple[str, str, str]]) -> None:
    recorded = by_pod(resize_events([(one["pod"], one["reason"], one["message"]) for one in step.get("events") or ()]))
    ours = by_pod(resize_events(said))
    final = (step.get("final") or {}).get("pods", {})
    for pod in recorded.keys() | ours.keys():
        theirs = [_generation_only(one) for one in recorded.get(pod, [])]
        mine = [_generation_only(one) for one in ours.get(pod, [])]
        if not whole_bytes(final.get(pod) or {}):
            mine = [one for one in mine if one[0] != "ResizeCompleted"]
        if is_artefact(step):
            theirs = [one for one in theirs if one[0] != "ResizeError"]
        if "delete at once" in step["do"]:
            # A race: what of the resize is done before the end differs from run to run.
            mine, theirs = mine[:1], theirs[:1]
        if patches_of(step) > 1:
            # Resizes that follow each other quickly may be taken together, and one that is taken back at once may not
            # be seen at all; the last one that is seen completes.
            assert not mine or mine[-1][0] == "ResizeCompleted"
            assert " 0 ms" in step["do"] or mine[-1:] == theirs[-1:]
            continue
        if step["do"] == "start node agent":
            mine, theirs = _after_start(mine), _after_start(theirs)
        assert mine == theirs, f"{step['do']}: Events of {pod}: {mine} instead of {theirs}"


def _after_start(events: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """A resize patched while no agent ran: upstream looks at it half a minute later, or takes it for allocated and
    completes it without a start; without its files it also completes what was complete. We start it at once."""
    return [one for one in events if one[0] not in ("ResizeStarted", "ResizeCompleted")]


def _generation_only(event: tuple[str, str]) -> tuple[str, str]:
    """Upstream sometimes words the completion with the sizes from before: the generation tells which resize it was."""
    if event[0] == "ResizeCompleted":
        return event[0], event[1].rpartition(',"generation"')[2]
    return event


def check_order(step: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    if patches_of(step) > 1:
        return
    for pod in theirs.keys() | ours.keys():
        left, right = theirs.get(pod, []), ours.get(pod, [])
        if step["do"] == "start node agent":
            # A container that ended meanwhile: upstream starts it with the old size and resizes it afterwards.
            made = {who for who, file, _ in left + right if file == "(cgroup)"}
            left, right = ([row for row in rows if row[0] not in made] for rows in (left, right))
        assert right == left, f"{step['do']}: cgroups of {pod}: {right} instead of {left}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_recorded_scenario_ends_the_same(file: Path, tmp_path: Path) -> None:
    scenario = json.loads(file.read_text())
    if any(one["kind"] == "Pod" and "nodeName" not in one["spec"] for one in scenario["manifests"]):
        pytest.skip("needs a scheduler: replayed with the whole control plane")
    if any(one["kind"] == "ResourceQuota" for one in scenario["manifests"]):
        pytest.skip("needs the quota controller: replayed with the whole control plane")
    allocatable = {key: text for key, text in scenario["node"]["allocatable"].items() if key != "pods"}
    async with Cluster(tmp_path, enable_admission=("PodResizeValidator",)) as cluster:
        node = await cluster.node(capacity=allocatable)
        node.machine.missing_images.add("registry.k8s.io/e2e-test-images/absent:1")
        player = Player(scenario, cluster, node)
        await player.prepare()
        for step in scenario["steps"]:
            await one_step(player, step)


async def one_step(player: Player, step: dict[str, Any]) -> None:
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
    answer = await player.act(step)
    if player.killed:
        # What the dying agent still told and did is compared together with what the next one adds.
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
    if step["do"].startswith(("patch resize", "put resize", "start node agent", "delete")):
        check_events(step, player.said)
        rows = player.machine.take()
        if not player.artefact:
            check_order(step, player.expected, rows)
