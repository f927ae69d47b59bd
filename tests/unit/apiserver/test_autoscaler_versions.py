"""Autoscalers are converted to autoscaling/v1 and back without loss."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.apiserver.apis import autoscalers

NUMBERS = st.integers(1, 1000)
QUANTITIES = NUMBERS.map(lambda number: f"{number}m")
NAMES = st.sampled_from(["rps", "queue"])


def _target(word: str, value: Any) -> dict[str, Any]:
    kinds = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}
    return {"type": kinds[word], word: value}


RESOURCE_TARGETS = st.one_of(
    NUMBERS.map(lambda n: _target("averageUtilization", n)), QUANTITIES.map(lambda q: _target("averageValue", q))
)
OTHERS = st.one_of(
    st.builds(lambda t: {"type": "Resource", "resource": {"name": "memory", "target": t}}, RESOURCE_TARGETS),
    st.builds(
        lambda t: {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": t}},
        RESOURCE_TARGETS,
    ),
    st.builds(
        lambda n, q: {"type": "Pods", "pods": {"metric": {"name": n}, "target": _target("averageValue", q)}},
        NAMES,
        QUANTITIES,
    ),
    st.builds(
        lambda n, q, w: {
            "type": "External",
            "external": {"metric": {"name": n, "selector": {"matchLabels": {"a": "b"}}}, "target": _target(w, q)},
        },
        NAMES,
        QUANTITIES,
        st.sampled_from(["value", "averageValue"]),
    ),
    st.builds(
        lambda n, q, w: {
            "type": "Object",
            "object": {
                "describedObject": {"kind": "Service", "name": "s"},
                "metric": {"name": n},
                "target": _target(w, q),
            },
        },
        NAMES,
        QUANTITIES,
        st.sampled_from(["value", "averageValue"]),
    ),
)
CPU = NUMBERS.map(
    lambda n: {"type": "Resource", "resource": {"name": "cpu", "target": _target("averageUtilization", n)}}
)
BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
        "selectPolicy": "Max",
    }
}


def autoscaler(metrics: list[Any], behavior: Any) -> dict[str, Any]:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3, "metrics": metrics}
    if behavior:
        spec["behavior"] = behavior
    status = {"desiredReplicas": 1, "currentReplicas": 1}
    meta = {"name": "h", "annotations": {"a": "b"}}
    return {"apiVersion": "autoscaling/v2", "kind": "X", "metadata": meta, "spec": spec, "status": status}


@given(st.lists(OTHERS, max_size=3), st.lists(CPU, max_size=1), st.sampled_from([None, BEHAVIOR]))
def test_a_v2_object_survives_v1(others: list[Any], cpu: list[Any], behavior: Any) -> None:
    metrics = others + cpu
    if not metrics:
        return
    before = autoscaler(metrics, behavior)
    there = autoscalers.to_v1(deepcopy(before))
    assert ("targetCPUUtilizationPercentage" in there["spec"]) == bool(cpu)
    assert "metrics" not in there["spec"]
    assert autoscalers.to_v2(there) == before


def test_v1_shows_what_it_has_no_words_for_in_annotations() -> None:
    memory = {"type": "Resource", "resource": {"name": "memory", "target": _target("averageUtilization", 70)}}
    shown = autoscalers.to_v1(autoscaler([memory], BEHAVIOR))
    notes = shown["metadata"]["annotations"]
    reported = json.loads(notes["autoscaling.alpha.kubernetes.io/metrics"])
    assert reported == [{"type": "Resource", "resource": {"name": "memory", "targetAverageUtilization": 70}}]
    assert json.loads(notes["autoscaling.alpha.kubernetes.io/behavior"])["ScaleUp"]["SelectPolicy"] == "Max"


def test_v1_without_a_target_means_eighty_percent() -> None:
    made = autoscalers.to_v2({"apiVersion": "autoscaling/v1", "metadata": {"name": "h"}, "spec": {"maxReplicas": 2}})
    assert made["spec"]["metrics"][0]["resource"]["target"] == _target("averageUtilization", 80)


def test_nonsense_in_the_annotations_is_ignored() -> None:
    meta = {"name": "h", "annotations": {"autoscaling.alpha.kubernetes.io/metrics": "{"}}
    made = autoscalers.to_v2({"apiVersion": "autoscaling/v1", "metadata": meta, "spec": {"maxReplicas": 2}})
    assert len(made["spec"]["metrics"]) == 1


def test_converted_metrics_are_in_the_order_of_their_measurements() -> None:
    def resource(name: str) -> dict[str, Any]:
        return {"type": "Resource", "resource": {"name": name}}

    cpu, memory, disk = resource("cpu"), resource("memory"), resource("disk")
    converted = [memory, disk, cpu]
    assert autoscalers.in_measured_order(converted, [memory, cpu, disk]) == [memory, cpu, disk]
    assert autoscalers.in_measured_order(converted, [cpu, memory, disk]) == [cpu, memory, disk]
    assert autoscalers.in_measured_order(converted, []) == converted


def test_the_annotation_about_behavior_has_every_field_as_go_names_it() -> None:
    policy = {"type": "Pods", "value": 4, "periodSeconds": 15}
    made = autoscalers.to_v1(autoscaler([], {"scaleDown": {"selectPolicy": "Max", "policies": [policy]}}))
    noted = json.loads(made["metadata"]["annotations"][autoscalers.BEHAVIOR])
    assert noted == {
        "ScaleUp": None,
        "ScaleDown": {
            "StabilizationWindowSeconds": None,
            "SelectPolicy": "Max",
            "Policies": [{"Type": "Pods", "Value": 4, "PeriodSeconds": 15}],
            "Tolerance": None,
        },
    }
