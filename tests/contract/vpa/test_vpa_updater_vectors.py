"""Recorded decisions of the updater: priorities, budgets, resize timeouts and whole passes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from vpa_vectors import cases_where, close, difference

from podfit.api.objects import ObjectView
from podfit.api.selectors import LabelSelector
from podfit.vpa.model.fitting.limitranges import merged
from podfit.vpa.model.objects.matching import Target
from podfit.vpa.model.objects.recommended import from_object
from podfit.vpa.model.times import from_rfc3339
from podfit.vpa.updater.decide.actions import NOTHING_TO_DO, Evict, PodEvent, Resize, resize
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.groups import GroupKey, ReplicasOf, pod_id
from podfit.vpa.updater.decide.one_pass import ClusterView, update_pass
from podfit.vpa.updater.decide.priority import candidates, priority_of
from podfit.vpa.updater.decide.resizing import resize_status
from podfit.vpa.updater.decide.restriction import Attempts, Restriction

KINDS = {
    "replicaSets": "ReplicaSet",
    "statefulSets": "StatefulSet",
    "replicationControllers": "ReplicationController",
    "daemonSets": "DaemonSet",
    "jobs": "Job",
}


def of(op: str) -> list[Any]:
    return cases_where("updater", lambda case: case["op"] == op)


def config_of(case: dict[str, Any]) -> UpdateConfig:
    given = case.get("config") or {}
    names = {
        "podUpdateThreshold": "pod_update_threshold",
        "inRecommendationBoundsEvictionLifetimeThresholdSeconds": (
            "in_recommendation_bounds_eviction_lifetime_threshold_s"
        ),
        "evictAfterOomThresholdSeconds": "evict_after_oom_threshold_s",
        "minReplicas": "min_replicas",
        "evictionTolerance": "eviction_tolerance",
        "inPlaceSkipDisruptionBudget": "in_place_skip_disruption_budget",
    }
    return UpdateConfig(gates=case.get("featureGates") or {}, **{names[key]: value for key, value in given.items()})


def replicas_in(objects: Mapping[GroupKey, ObjectView]) -> ReplicasOf:
    """Reads the numbers from controller objects. The replicas of a missing or empty controller are unknown."""

    def replicas_of(creator: GroupKey) -> int | None:
        if creator.kind not in ("ReplicationController", "ReplicaSet", "StatefulSet", "DaemonSet"):
            return 0
        found = objects.get(creator)
        if found is None:
            return None
        if creator.kind == "DaemonSet":
            return (found.get("status") or {}).get("numberReady") or None
        return (found.get("spec") or {}).get("replicas") or None

    return replicas_of


def replicas_of(case: dict[str, Any]) -> ReplicasOf:
    objects = {}
    for kind, found in (case.get("controllers") or {}).items():
        for object in found:
            meta = object["metadata"]
            objects[GroupKey(meta["namespace"], KINDS[kind], meta["name"])] = object
    return replicas_in(objects)


def shown(event: PodEvent) -> str:
    return f"{event.kind}/{event.name} {event.type} {event.reason} {event.message}"


def perform(action: Evict | Resize) -> tuple[list[dict[str, Any]], list[str], str | None]:
    """The API calls and events an action leads to, in a cluster that refuses to resize pods named fail-*."""
    name = action.pod["metadata"]["name"]
    if isinstance(action, Evict):
        return [{"pod": name, "verb": "evict"}], list(map(shown, action.events)), None
    kind = {"patchType": "application/json-patch+json", "pod": name, "verb": "patch"}
    calls = [{**kind, "patch": action.patch, "subresource": "resize"}]
    if name.startswith("fail-"):
        return calls, [], "resize rejected"
    calls.append({**kind, "patch": action.annotations, "subresource": ""})
    return calls, list(map(shown, action.events)), None


def normal(value: Any, unordered: bool) -> Any:
    """In recordings removals carry a null value, and resources within one map may come in any order."""
    if isinstance(value, dict):
        if value.get("op") == "remove":
            return {"op": "remove", "path": value["path"]}
        return {key: normal(entry, unordered) for key, entry in value.items()}
    if isinstance(value, list):
        entries = [normal(entry, unordered) for entry in value]
        if unordered and entries and all(isinstance(entry, dict) and "path" in entry for entry in entries):
            entries.sort(key=lambda entry: entry["path"])
        return entries
    return value


def check(got: Any, case: dict[str, Any]) -> None:
    unordered = case["variants"] > 1
    got, expect = normal(got, unordered), normal(case["expect"], unordered)
    assert close(got, expect), difference(got, expect)


@pytest.mark.parametrize("case", of("priority"), ids=lambda case: case["name"])
def test_priority_is_as_recorded(case: dict[str, Any]) -> None:
    entries = (case["recommendation"] or {}).get("containerRecommendations") or ()
    got = []
    for pod in case["pods"]:
        found = priority_of(pod, [from_object(entry) for entry in entries])
        got.append(
            {
                "outsideRecommendedRange": found.outside_range,
                "resourceDiff": found.difference,
                "scaleUp": found.scale_up,
            }
        )
    check(got, case)


@pytest.mark.parametrize("case", of("order"), ids=lambda case: case["name"])
def test_pods_are_updated_in_the_recorded_order(case: dict[str, Any]) -> None:
    config, vpa = config_of(case), case["vpa"]
    bounds = merged(case.get("limitRanges") or (), "ns", all_containers=True)
    tried = case.get("infeasibleAttempts") or {}
    ordered = candidates(case["pods"], vpa, from_rfc3339(case["now"]), config, bounds, tried)
    check([entry.pod["metadata"]["name"] for entry in ordered], case)


class Rig:
    """One restriction, called step by step."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.config = config_of(case)
        self.pods = {pod["metadata"]["name"]: copy.deepcopy(pod) for pod in case["pods"]}
        self.now = self.clock = from_rfc3339(case["now"])
        self.attempts = Attempts(infeasible=case.get("infeasibleAttempts") or {})
        self.newLoop()

    def newLoop(self) -> Any:
        pods = list(self.pods.values())
        self.restriction = Restriction(pods, self.case["vpa"], replicas_of(self.case), self.config, self.attempts)
        return self.groups()

    def groups(self) -> Any:
        return [
            {
                "belowMinReplicas": group.below_minimum,
                "configured": group.configured,
                "disruptable": group.disruptable,
                "evicted": group.evicted,
                "evictionTolerance": group.tolerance,
                "group": str(creator),
                "inPlaceUpdateInitiated": group.resized,
                "inPlaceUpdateOngoing": group.resizing,
                "pending": group.pending,
                "running": group.running,
            }
            for creator, group in sorted(self.restriction.groups.items())
        ]

    def canEvict(self, name: str) -> Any:
        return self.restriction.can_evict(self.pods[name], self.clock)

    def why_not_evict(self, pod: Any) -> str | None:
        """The error message as upstream words it, or None."""
        where = "/".join(pod_id(pod))
        if self.restriction.group_of(pod) is None:
            return f"pod not suitable for eviction {where}: not in replicated pods map"
        if not self.restriction.can_evict(pod, self.clock):
            return f"cannot evict pod {where}: eviction budget exceeded"
        return None

    def evict(self, name: str) -> Any:
        pod = self.pods[name]
        error = self.why_not_evict(pod)
        if error:
            return {"error": error, "ok": False}
        calls, events, _ = perform(Evict(pod, self.case["vpa"]))
        self.restriction.count_eviction(pod)
        return {"actions": calls, "events": events, "ok": True}

    def canInPlaceUpdate(self, name: str) -> Any:
        return self.restriction.can_resize(self.pods[name], self.clock).value

    def inPlaceUpdate(self, name: str) -> Any:
        pod = self.pods[name]
        if self.restriction.group_of(pod) is None:
            return {"error": f"pod not suitable for in-place update {name}: not in replicated pods map", "ok": False}
        action = resize(pod, self.case["vpa"], self.now)
        if action is None:
            return {"error": NOTHING_TO_DO, "ok": False}
        calls, events, error = perform(action)
        if error:
            return {"actions": calls, "error": error, "ok": False}
        self.restriction.count_resize(pod)
        return {"actions": calls, "events": events, "ok": True}

    def resizeStatus(self, name: str) -> Any:
        return resize_status(self.pods[name]).value

    def advance(self, seconds: int) -> None:
        self.clock += seconds

    def setConditions(self, name: str, conditions: list[Any]) -> None:
        self.pods[name].setdefault("status", {})["conditions"] = conditions


@pytest.mark.parametrize("case", of("restrict"), ids=lambda case: case["name"])
def test_budgets_decide_as_recorded(case: dict[str, Any]) -> None:
    rig = Rig(case)
    got = [rig.groups()]
    got += [getattr(rig, name)(*arguments) for name, *arguments in case["steps"]]
    check(got, case)


class Cluster:
    """Runs whole passes and records the API calls they make."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.pods = copy.deepcopy(case["pods"])
        self.now = self.clock = from_rfc3339(case["now"])
        self.attempts = Attempts()

    def selector_of(self, vpa: Any) -> LabelSelector | None:
        meta = vpa["metadata"]
        text = self.case["selectors"].get(f"{meta['namespace']}/{meta['name']}", "!")
        return None if text == "!" else LabelSelector.parse(text)

    def topmost_of(self, namespace: str, owner: Any) -> Target | None:
        kind, name = owner["kind"], owner["name"]
        top = self.case["owners"].get(f"{kind}/{name}", f"x|{kind}/{name}")
        return None if top == "!" else Target(namespace, *top.split("|")[1].split("/"))

    def loop(self) -> Any:
        world = ClusterView(
            self.case["vpas"],
            sorted(self.pods, key=lambda pod: pod["metadata"]["name"]),
            self.selector_of,
            self.topmost_of,
            replicas_of(self.case),
            self.case.get("limitRanges") or (),
            change_without_recommendation=True,
        )
        run = update_pass(world, self.attempts, config_of(self.case), self.now, self.clock)
        actions: list[Any] = []
        events: list[str] = []
        answer: str | None = None
        try:
            action = next(run)
            while True:
                calls, reported, answer = perform(action)
                actions += calls
                events += reported
                action = run.send(answer)
        except StopIteration:
            return {"actions": actions, "events": events or None, "infeasible": sorted(self.attempts.infeasible)}

    def advance(self, seconds: int) -> None:
        self.clock += seconds

    def setConditions(self, name: str, conditions: list[Any]) -> None:
        for pod in self.pods:
            if pod["metadata"]["name"] == name:
                pod.setdefault("status", {})["conditions"] = conditions


@pytest.mark.parametrize("case", of("runonce"), ids=lambda case: case["name"])
def test_pass_makes_the_recorded_calls(case: dict[str, Any]) -> None:
    cluster = Cluster(case)
    check([getattr(cluster, name)(*arguments) for name, *arguments in case.get("steps") or [["loop"]]], case)
