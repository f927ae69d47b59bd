"""Replays recordings of Kubernetes 1.31 and 1.32 with the alpha gate on, in namespaces of those dialects.

Every response (code, reason, message, spec, policies, `status.resize`), the values of `status.resize` that a watcher
receives, and the final resources of containers are compared. Times are not compared: if a recording continues while its
node was still busy, its state at that moment is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named

VECTORS = Path(os.environ.get("PODFIT_VECTORS") or Path(__file__).parents[3] / "shared" / "vectors")
FILES = [path for version in ("v1.31", "v1.32") for path in sorted((VECTORS / version).glob("*.json"))]
STRATEGIC = "application/strategic-merge-patch+json"
SIZES = ("allocatedResources", "resources", "restartCount")

pytestmark = pytest.mark.skipif(not FILES, reason=f"no recordings in {VECTORS}")


def resize_of(pod: Object) -> str | None:
    return (pod.get("status") or {}).get("resize")


def statuses(pod: Object) -> dict[str, Object]:
    listed = (pod.get("status") or {}).get("containerStatuses") or []
    return {entry["name"]: {key: entry.get(key) for key in SIZES} for entry in listed}


def is_running(pod: Object | None) -> bool:
    listed = ((pod or {}).get("status") or {}).get("containerStatuses") or []
    return bool(listed) and all("running" in entry["state"] for entry in listed)


def is_counted(quota: Object | None) -> bool:
    return bool(((quota or {}).get("status") or {}).get("used"))


class Seen:
    """The values of `status.resize` that a watcher of the namespace receives, by pod."""

    def __init__(self) -> None:
        self.values: dict[str, list[str | None]] = {}
        self.pods: dict[str, Object] = {}
        self.changed = asyncio.Event()

    async def follow(self, whole: Whole, namespace: str) -> None:
        async for word, pod in whole.client.watch(POD, namespace):
            name = pod["metadata"]["name"]
            self.pods[name] = pod
            values = self.values.setdefault(name, [])
            if word != "DELETED" and (not values or values[-1] != resize_of(pod)):
                values.append(resize_of(pod))
            self.changed.set()

    def begin(self) -> None:
        """Starts a new step: of the values seen so far, only the last is kept, as the one to change from."""
        self.values = {name: values[-1:] for name, values in self.values.items()}

    async def until(self, pod: str, last: str | None, moves: bool) -> None:
        """Waits for the value; with `moves`, it must also differ from the previous one."""
        async with asyncio.timeout(20):
            while (values := self.values.get(pod) or [None])[-1] != last or (moves and len(values) < 2):
                self.changed.clear()
                await self.changed.wait()


class Replay:
    def __init__(self, whole: Whole, path: Path) -> None:
        self.recording = json.loads(path.read_text())
        self.version, self.whole, self.ask = path.parent.name, whole, Asker(whole.up.server)
        self.namespace = "old-" + self.recording["name"].replace("_", "-")
        self.base = f"/api/v1/namespaces/{self.namespace}/pods"
        self.door, self.other = ("/resize", "") if self.version == "v1.32" else ("", "/resize")
        self.seen, self.unfinished = Seen(), False

    async def run(self) -> None:
        await self.whole.namespace(self.namespace, self.version)
        watching = asyncio.create_task(self.seen.follow(self.whole, self.namespace))
        try:
            await self.begin()
            for step in self.recording["steps"][1:]:
                await self.step(step)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    async def begin(self) -> None:
        for manifest in self.recording["manifests"]:
            plural = kind_named(manifest["kind"]).plural
            code, answer = await self.ask("POST", f"/api/v1/namespaces/{self.namespace}/{plural}", manifest)
            assert code == 201, answer
            if manifest["kind"] == "Pod":
                await becomes(self.whole.client, POD, self.namespace, manifest["metadata"]["name"], is_running)
            elif manifest["kind"] == "ResourceQuota":
                kind, name = kind_named("ResourceQuota"), manifest["metadata"]["name"]
                await becomes(self.whole.client, kind, self.namespace, name, is_counted)

    async def send(self, step: Object) -> list[tuple[int, Any]]:
        name, body = step["pod"], step["body"]
        match step["do"]:
            case "patch":
                bodies = body if isinstance(body, list) else [body]
                return [await self.ask("PATCH", f"{self.base}/{name}{self.door}", entry, STRATEGIC) for entry in bodies]
            case "patch_other":
                return [await self.ask("PATCH", f"{self.base}/{name}{self.other}", body, STRATEGIC)]
            case "create":
                return [await self.ask("POST", self.base, body)]
            case "delete":
                return [await self.ask("DELETE", f"{self.base}/{name}")]
            case "put_without_policy":
                pod = (await self.ask("GET", f"{self.base}/{name}"))[1]
                for container in pod["spec"]["containers"]:
                    container.pop("resizePolicy", None)
                pod["metadata"].setdefault("labels", {})["touched"] = "yes"
                return [await self.ask("PUT", f"{self.base}/{name}", pod)]
        return []

    async def step(self, step: Object) -> None:
        recorded = step["response"] if isinstance(step["response"], list) else [step["response"]]
        self.seen.begin()
        answers = await self.send(step)
        for expected, (code, answer) in zip(recorded, answers, strict=bool(answers)):
            self.compare_answer(step["do"], expected, code, answer)
        if answers and all(entry["code"] < 300 for entry in recorded):
            await self.compare_course(step, several=len(recorded) > 1)

    def compare_answer(self, do: str, expected: Object, code: int, answer: Any) -> None:
        assert code == expected["code"], answer
        if code >= 300:
            reported = (expected.get("message") or expected.get("text", "")).split("\n")[0].strip()
            assert (answer.get("reason"), answer["message"].split("\n")[0].strip()) == (
                expected.get("reason"),
                reported,
            )
        elif do != "delete":
            containers = answer["spec"]["containers"]
            assert {container["name"]: container.get("resources") for container in containers} == expected["spec"]
            assert {container["name"]: container.get("resizePolicy") for container in containers} == expected[
                "resizePolicy"
            ]
            if not self.unfinished or expected.get("resize") == "Proposed":
                assert resize_of(answer) == expected.get("resize")

    async def compare_course(self, step: Object, several: bool) -> None:
        courses: dict[str, list[str | None]] = {}
        last: dict[str, Object] = {}
        for state in step["timeline"]:
            if state.get("deleted"):
                courses.pop(state["pod"], None)
                last.pop(state["pod"], None)
                continue
            values = courses.setdefault(state["pod"], [])
            last[state["pod"]] = state
            if not values or values[-1] != state.get("resize"):
                values.append(state.get("resize"))
        began_unfinished = self.unfinished
        self.unfinished = any(item.get("resize") == "InProgress" for item in last.values())
        for name, course in courses.items():
            await self.compare_pod(name, course, last[name], several, began_unfinished)

    async def compare_pod(
        self, name: str, course: list[str | None], last: Object, several: bool, began_unfinished: bool
    ) -> None:
        end = None if course[-1] == "InProgress" else course[-1]
        expected = [value for value in course if value]
        compared = bool(expected) and not (began_unfinished and expected[0] != "Proposed")
        await self.seen.until(name, end, moves=compared)
        seen = [value for value in self.seen.values[name][1:] if value] or [v for v in self.seen.values[name][:1] if v]
        if several:
            expected, seen = expected[-1:], seen[-1:]
        if compared:
            assert (seen[:1], seen[-1:]) == (expected[:1], expected[-1:]), self.seen.values[name]
        for status in last["containerStatuses"]:
            settled = status.get("resources") == last["spec"][status["name"]] or end in ("Deferred", "Infeasible")
            if settled and course[-1] != "InProgress":
                pod = await self.settled(name, status)
                assert statuses(pod)[status["name"]] == {key: status.get(key) for key in SIZES}

    async def settled(self, name: str, container: Object) -> Object:
        def has(pod: Object | None) -> bool:
            return pod is not None and statuses(pod)[container["name"]]["resources"] == container.get("resources")

        found = await becomes(self.whole.client, POD, self.namespace, name, has)
        assert found is not None
        return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_dialect_answers_as_the_release_did(path: Path, tmp_path: Path) -> None:
    capacity = {"cpu": "2", "memory": "24580016Ki"}
    async with Whole(tmp_path, node_name="node1", node_capacity=capacity) as whole:
        await Replay(whole, path).run()
