"""Recorded single-pod traces: half a million events in, recommendations and final states out."""

from __future__ import annotations

from typing import Any

import pytest
from vpa_vectors import UPSTREAM, cases, close, difference, trace_generator

from podfit.api.selectors import LabelSelector
from podfit.vpa.model.times import NEVER, to_rfc3339
from podfit.vpa.recommender.decide.config import from_flags
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState
from podfit.vpa.recommender.decide.histograms.container import OomRefused
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, estimate_all

POD = ("ns", "pod")


def start(case: dict[str, Any]) -> ClusterState:
    cluster = ClusterState(from_flags({**UPSTREAM, **(case.get("config") or {})}))
    cluster.add_vpa({"metadata": {"namespace": "ns", "name": "vpa"}}, LabelSelector.parse("app=x"))
    return cluster


def add_pod(cluster: ClusterState, case: dict[str, Any]) -> None:
    cluster.add_pod(POD, {"app": "x"}, "Running")
    for container in case["trace"]["containers"]:
        cluster.add_container(POD, container["name"])


def feed(cluster: ClusterState, case: dict[str, Any], event: list[Any]) -> str | None:
    """The error message, if any."""
    kind, index, instant, value = event
    if kind == "restart":
        cluster.delete_pod(POD)
        add_pod(cluster, case)
        return None
    container = case["trace"]["containers"][index]["name"]
    if kind == "oom":
        try:
            cluster.record_oom(POD, container, instant, value)
        except OomRefused as error:
            return str(error)
        return None
    accept = cluster.add_cpu if kind == "cpu" else cluster.add_memory
    return None if accept(POD, container, value, instant) else "sample discarded (invalid or out of order)"


def recommended(cluster: ClusterState) -> dict[str, Estimate]:
    return estimate_all(cluster.for_recommendation(cluster.vpas["ns", "vpa"]), cluster.config)


def same_size(got: Estimate, expect: dict[str, Any]) -> bool:
    pairs = ((got.target, "target"), (got.lower, "lowerBound"), (got.upper, "upperBound"))
    return all(
        mine.keys() == expect[name].keys()
        and mine.get("cpu") == expect[name].get("cpu")
        and close(mine.get("memory"), expect[name].get("memory"), 1e-6)
        for mine, name in pairs
    )


def states(cluster: ClusterState) -> dict[str, Any]:
    merged = cluster.merged(cluster.vpas["ns", "vpa"])
    return {
        name: {
            "cpuReference": to_rfc3339(state.cpu.reference) or "0001-01-01T00:00:00Z",
            "cpuTotalWeight": state.cpu.total,
            "firstSampleStart": None if state.first == NEVER else state.first,
            "lastSampleStart": None if state.last == NEVER else state.last,
            "memoryReference": to_rfc3339(state.memory.reference) or "0001-01-01T00:00:00Z",
            "memoryTotalWeight": state.memory.total,
            "totalSamplesCount": state.count,
        }
        for name, state in merged.items()
    }


@pytest.mark.parametrize("case", cases("recommender"), ids=lambda case: case["name"])
def test_trace_leads_to_recorded_recommendations(case: dict[str, Any]) -> None:
    events, _ = trace_generator().events_and_marks(case["trace"])
    assert len(events) == case["eventCount"]
    assert trace_generator().digest(events) == case["eventsSha256"]
    cluster = start(case)
    add_pod(cluster, case)
    points = {point["events"]: point["recommendation"] for point in case["expect"]}
    refused = []
    for number, event in enumerate([None, *events]):
        reason = feed(cluster, case, event) if event else None
        if reason is not None:
            refused.append([number - 1, reason])
        if number in points:
            got = recommended(cluster)
            expect = points.pop(number)
            assert got.keys() == expect.keys()
            for name in expect:
                assert same_size(got[name], expect[name]), (number, name, got[name], expect[name])
    assert not points
    assert len(refused) == case["discardedCount"]
    assert refused == case.get("discarded", refused)
    assert close(states(cluster), case["finalState"]), difference(states(cluster), case["finalState"])
