"""Recorded histories of whole clusters: pods, autoscalers, checkpoints, garbage, policies and conditions."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.support.cluster.scrapes import recommend_all
from vpa_vectors import UPSTREAM, cases, close, difference, trace_generator

from podfit.api.selectors import LabelSelector
from podfit.vpa.model.times import NEVER, to_rfc3339
from podfit.vpa.recommender.decide.checkpoint import CheckpointError
from podfit.vpa.recommender.decide.checkpoints import checkpoints_of, status_patch
from podfit.vpa.recommender.decide.config import from_flags
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, UnknownTarget
from podfit.vpa.recommender.decide.histograms.container import OomRefused
from podfit.vpa.recommender.decide.histograms.histogram import DecayingHistogram
from podfit.vpa.recommender.decide.status import recommend

FAR_FUTURE = 4102444800
ZERO = "0001-01-01T00:00:00Z"


class World:
    """The cluster under test, and the objects an API server would hold for it."""

    def __init__(self, config: dict[str, Any], in_arrays: bool) -> None:
        self.config = from_flags({**UPSTREAM, **config})
        self.in_arrays = in_arrays
        self.cluster = self.new_cluster()
        self.objects: dict[str, tuple[dict[str, Any], str]] = {}
        self.checkpoints: list[dict[str, Any]] = []
        self.written: set[str] = set()

    def new_cluster(self) -> ClusterState:
        return ClusterState(self.config, Fleet(self.config) if self.in_arrays else None)

    def reload(self) -> None:
        for object, selector in self.objects.values():
            if selector == "!":
                self.cluster.add_vpa(object, None, "Cannot read targetRef. Reason: target not found")
            else:
                self.cluster.add_vpa(object, LabelSelector.parse(selector))

    def do(self, op: list[Any]) -> Any:
        return getattr(self, f"do_{op[0]}")(*op[1:])

    def do_vpa(self, object: dict[str, Any], selector: str) -> None:
        meta = object["metadata"]
        name = f"{meta['namespace']}/{meta['name']}"
        object = copy.deepcopy(object)
        if name in self.objects and "status" in self.objects[name][0] and "status" not in object:
            object["status"] = self.objects[name][0]["status"]
        self.objects[name] = (object, selector)
        self.reload()

    def do_delvpa(self, namespace: str, name: str) -> None:
        del self.objects[f"{namespace}/{name}"]
        self.cluster.delete_vpa((namespace, name))

    def do_pod(self, namespace: str, name: str, labels: dict[str, str], phase: str) -> None:
        self.cluster.add_pod((namespace, name), labels, phase)

    def do_delpod(self, namespace: str, name: str) -> None:
        self.cluster.delete_pod((namespace, name))

    def do_ctr(self, namespace: str, pod: str, container: str, requests: dict[str, int]) -> None:
        self.cluster.add_container((namespace, pod), container)

    def do_oom(self, namespace: str, pod: str, container: str, instant: int, amount: int) -> Any:
        try:
            self.cluster.record_oom((namespace, pod), container, instant, amount)
        except OomRefused as error:
            return {"error": str(error)}
        return None

    def do_gen(self, namespace: str, trace: dict[str, Any], digest: dict[str, Any]) -> list[Any]:
        events, _ = trace_generator().events_and_marks(trace)
        assert trace_generator().digest(events) == digest["eventsSha256"]
        refused = []
        for number, (kind, index, instant, value) in enumerate(events):
            where = trace["containers"][index]
            pod = (namespace, where["pod"])
            if kind == "oom":
                answer = self.do_oom(namespace, where["pod"], where["name"], instant, value)
                if answer:
                    refused.append((number, answer))
                continue
            accept = self.cluster.add_cpu if kind == "cpu" else self.cluster.add_memory
            if not accept(pod, where["name"], value, instant):
                refused.append((number, {"error": "sample discarded (invalid or out of order)"}))
        return refused

    def do_rec(self) -> dict[str, Any]:
        self.reload()
        answer = {}
        together = recommend_all(self.cluster, None)
        for (namespace, name), vpa in self.cluster.vpas.items():
            found = recommend(self.cluster, vpa, None)
            assert found == together[namespace, name]
            if found.patch:
                vpa.object["status"] = found.status  # type: ignore[index]
            raw = {
                container: {"lowerBound": sizes.lower, "target": sizes.target, "upperBound": sizes.upper}
                for container, sizes in found.estimates.items()
            }
            answer[f"{namespace}/{name}"] = {
                "podCount": len(vpa.pods),
                "raw": raw,
                "status": found.status,
                "statusPatched": found.patch is not None,
            }
        return answer

    def do_state(self, detail: str = "") -> dict[str, Any]:
        return {
            "/".join(id): {
                name: full_state(state) if detail else short_state(state)
                for name, state in self.cluster.merged(vpa).items()
            }
            for id, vpa in self.cluster.vpas.items()
        }

    def do_aggregates(self) -> list[str]:
        found = self.cluster.aggregates.items()
        return sorted(f"{key.namespace}|{key.container}|{key.labels}|{state.count}" for key, state in found)

    def do_ckpt(self, now: int) -> dict[str, Any]:
        answer = {}
        self.checkpoints = []
        for id, vpa in self.cluster.vpas.items():
            objects = checkpoints_of(self.cluster, vpa, now)
            answer["/".join(id)] = objects
            self.checkpoints += [
                {**object, "metadata": {**object["metadata"], "namespace": id[0]}} for object in objects
            ]
        return answer

    def do_store(self) -> list[dict[str, Any]]:
        patches, creations = [], []
        for id, vpa in self.cluster.vpas.items():
            for object in checkpoints_of(self.cluster, vpa, FAR_FUTURE):
                object["status"]["lastUpdateTime"] = "<now>"
                name = object["metadata"]["name"]
                patch = status_patch(object)
                kind = {"patchType": "application/json-patch+json", "subresource": "", "verb": "patch"}
                patches.append({"name": name, "namespace": id[0], "patch": patch, **kind})
                if name not in self.written:
                    self.written.add(name)
                    creations.append({"namespace": id[0], "object": object, "verb": "create"})
        return patches + creations

    def do_restart(self) -> None:
        self.cluster = self.new_cluster()
        self.reload()
        self.do_load(self.checkpoints)

    def do_load(self, objects: list[dict[str, Any]]) -> Any:
        answer = None
        for object in objects:
            try:
                self.cluster.load_checkpoint(copy.deepcopy(object))
            except UnknownTarget:
                continue
            except CheckpointError as error:
                answer = {"checkpoint": object["metadata"]["name"], "error": str(error)}
        return answer

    def do_gc(self, now: int, created: int) -> None:
        self.cluster.stamp_created(created)
        self.cluster.collect_garbage(now, [id for id, pod in self.cluster.pods.items() if not pod.finished])


def short_state(state: Any) -> dict[str, Any]:
    return {
        "cpuReference": to_rfc3339(state.cpu.reference) or ZERO,
        "cpuTotalWeight": state.cpu.total,
        "firstSampleStart": None if state.first == NEVER else state.first,
        "lastSampleStart": None if state.last == NEVER else state.last,
        "memoryReference": to_rfc3339(state.memory.reference) or ZERO,
        "memoryTotalWeight": state.memory.total,
        "totalSamplesCount": state.count,
    }


def full_histogram(histogram: DecayingHistogram) -> dict[str, Any]:
    return {
        "minBucket": histogram.low,
        "maxBucket": histogram.high,
        "totalWeight": histogram.total,
        "referenceTimestamp": to_rfc3339(histogram.reference) or ZERO,
        "weights": {str(bucket): weight for bucket, weight in enumerate(histogram.weights) if weight},
        "empty": histogram.empty,
    }


def full_state(state: Any) -> dict[str, Any]:
    short = short_state(state)
    counts = {name: short[name] for name in ("firstSampleStart", "lastSampleStart", "totalSamplesCount")}
    return {"cpu": full_histogram(state.cpu), "memory": full_histogram(state.memory), **counts}


def acceptable(case: dict[str, Any]) -> dict[tuple[int, ...], list[Any]]:
    """Every accepted answer, by its position."""
    answers = {tuple(place): [value] for place, value in case["expect"]}
    for place, values in case.get("alternatives") or ():
        answers[tuple(place)] += values
    return answers


def check(case: dict[str, Any], in_arrays: bool) -> None:
    answers = acceptable(case)
    world = World(case.get("config") or {}, in_arrays)
    for number, op in enumerate(case["ops"]):
        got = world.do(op)
        if op[0] == "gen":
            for event, error in got:
                assert any(right in (error, error["error"]) for right in answers.pop((number, event), [])), error
            continue
        expected = answers.pop((number,), [None])
        assert any(close(got, right) for right in expected), (number, op[0], difference(got, expected[0]))
    assert not answers


@pytest.mark.parametrize("in_arrays", [False, True], ids=["objects", "arrays"])
@pytest.mark.parametrize("case", cases("aggregation"), ids=lambda case: case["name"])
def test_cluster_history_replays(case: dict[str, Any], in_arrays: bool) -> None:
    check(case, in_arrays)


@pytest.mark.parametrize("case", cases("postprocess"), ids=lambda case: case["name"])
def test_policies_and_flags_shape_the_recommendation(case: dict[str, Any]) -> None:
    check(case, in_arrays=True)
