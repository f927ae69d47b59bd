"""HorizontalPodAutoscalers: metrics, behaviour and targets, rejected with Kubernetes' messages and fields."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.registry.kinds import kind_named
from podfit.apiserver.strategy import strategy_for

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
_TYPES = 'supported values: "ContainerResource", "External", "Object", "Pods", "Resource"'
_UTILIZATION = {"type": "Utilization", "averageUtilization": 1}
_CPU = {"name": "cpu", "target": _UTILIZATION}


def refusals(**spec: Any) -> list[str]:
    strategy = strategy_for(kind_named("HorizontalPodAutoscaler", "autoscaling"))
    metadata = {"name": "h", "namespace": "d", "uid": "u"}
    obj: dict[str, Any] = {"metadata": metadata, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}}
    strategy.default(obj)
    return [str(each) for each in strategy.validate_create(obj)]


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (
            {"type": "Foo"},
            [f'type: Unsupported value: "Foo": {_TYPES}', f'type: Unsupported value: "Foo": {_TYPES}'],
        ),
        ({"type": "Resource"}, ["resource: Required value: must populate information for the given metric source"]),
        (
            {"type": "Resource", "resource": _CPU, "containerResource": _CPU},
            ["containerResource: Forbidden: must populate the given metric source only"],
        ),
        (
            {"type": "Object", "object": {"metric": {"name": "a/b"}, "target": {"type": "Value", "value": "1"}}},
            [
                "object.describedObject.kind: Required value",
                "object.describedObject.name: Required value",
                "object.metric.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
        (
            {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value"}}},
            [
                "external.target.averageValue: Required value: must set either a target value for metric or a per-pod "
                "target"
            ],
        ),
        (
            {
                "type": "External",
                "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}},
            },
            ["external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"],
        ),
    ],
)
def test_metrics(metric: dict[str, Any], words: list[str]) -> None:
    assert refusals(metrics=[metric]) == [f"spec.metrics[0].{each}" for each in words]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (
            {"stabilizationWindowSeconds": -1, "selectPolicy": "Foo"},
            [
                "stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero",
                'selectPolicy: Unsupported value: "Foo": supported values: "Disabled", "Max", "Min"',
            ],
        ),
        (
            {"stabilizationWindowSeconds": 3601, "policies": [{"type": "Foo", "value": 0, "periodSeconds": 1801}]},
            [
                "stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                'policies[0].type: Unsupported value: "Foo": supported values: "Percent", "Pods"',
                "policies[0].value: Invalid value: 0: must be greater than zero",
                "policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
            ],
        ),
        ({"tolerance": "-1"}, ['tolerance: Invalid value: "-1": must be greater than or equal to 0']),
        ({"policies": []}, ["policies: Required value: must specify at least one Policy"]),
    ],
)
def test_behaviour(rules: dict[str, Any], words: list[str]) -> None:
    assert refusals(behavior={"scaleUp": rules}) == [f"spec.behavior.scaleUp.{each}" for each in words]


def test_no_replicas_need_a_metric_that_does_not_come_from_them() -> None:
    detail = "must specify at least one Object or External metric to support scaling to zero replicas"
    assert refusals(minReplicas=0) == [
        "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
        f"spec.metrics: Forbidden: {detail}",
    ]


def test_status_counts() -> None:
    strategy = strategy_for(kind_named("HorizontalPodAutoscaler", "autoscaling"))
    (refused,) = strategy.validate_status({"status": {"desiredReplicas": -1}}, {})
    assert str(refused) == "status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0"


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ({"kind": "Deployment", "name": "d"}, 'Invalid value: "": apiVersion must specify API group'),
        (
            {"kind": "Deployment", "name": "d", "apiVersion": "v1"},
            'Invalid value: "v1": apiVersion must specify API group',
        ),
        ({"kind": "ReplicationController", "name": "d", "apiVersion": "v1"}, ""),
        ({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, ""),
    ],
    ids=["none", "no group", "the core kind", "with a group"],
)
def test_the_target_of_an_autoscaler_names_its_group(target: dict[str, str], complaint: str) -> None:
    strategy = strategy_for(kind_named("HorizontalPodAutoscaler"))
    body = {"metadata": {"name": "h", "namespace": "default"}, "spec": {"maxReplicas": 1, "scaleTargetRef": target}}
    found = [error.body for error in strategy.validate_create(body) if error.path == "spec.scaleTargetRef.apiVersion"]
    assert found == ([complaint] if complaint else [])


def test_a_target_without_a_group_that_was_accepted_once_may_stay() -> None:
    strategy = strategy_for(kind_named("HorizontalPodAutoscaler"))
    metadata = {"name": "h", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    spec = {"maxReplicas": 1, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}
    stored = {"metadata": metadata, "spec": spec}
    assert strategy.validate_update({"metadata": metadata, "spec": {**spec, "maxReplicas": 2}}, stored) == []


def test_the_version_of_an_object_with_metrics_is_well_formed_unless_a_stored_one_is_not() -> None:
    strategy = strategy_for(kind_named("HorizontalPodAutoscaler"))
    described = {"kind": "K", "name": "n", "apiVersion": "a/b/c"}
    source = {"describedObject": described, "metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    spec = {"maxReplicas": 1, "scaleTargetRef": target, "metrics": [{"type": "Object", "object": source}]}
    obj = {"metadata": {"name": "h", "namespace": "d", "resourceVersion": "1"}, "spec": spec}
    assert [str(error) for error in strategy.validate_create(obj)] == [
        'spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: '
        "a/b/c"
    ]
    assert strategy.validate_update(obj, obj) == []
