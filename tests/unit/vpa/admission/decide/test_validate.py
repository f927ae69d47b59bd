"""Whether a VerticalPodAutoscaler may be stored."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.autoscalers import vpa

from podfit.vpa.admission.decide.validate import Allowed, allowed_for, validate

EVERYTHING = Allowed(create=True, boost=True, per_vpa=True, in_place=True)
FACTOR = {"cpu": {"type": "Factor", "factor": 2}}


def policy(**fields: Any) -> dict[str, Any]:
    return {"resourcePolicy": {"containerPolicies": [{"containerName": "app", **fields}]}}


def wrong(allowed: Allowed, **spec: Any) -> list[str]:
    return [str(error.path) for error in validate(vpa(**spec), allowed)]


IN_POLICY = "spec.resourcePolicy.containerPolicies[0]"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"mode": "Sometimes"}, "spec.updatePolicy.updateMode"),
        ({"mode": None}, "spec.updatePolicy.updateMode"),
        ({"updatePolicy": {"minReplicas": 0}}, "spec.updatePolicy.minReplicas"),
        ({"updatePolicy": {"evictAfterOOMSeconds": 0}}, "spec.updatePolicy.evictAfterOOMSeconds"),
        ({"targetRef": None}, "spec.targetRef"),
        ({"selector": {}}, "spec.selector"),
        ({"recommenders": [{"name": "a"}, {"name": "b"}]}, "spec.recommenders"),
        (policy(containerName=""), f"{IN_POLICY}.containerName"),
        (policy(mode="On"), f"{IN_POLICY}.mode"),
        (policy(mode="Off", controlledValues="RequestsAndLimits"), f"{IN_POLICY}.controlledValues"),
        (policy(oomBumpUpRatio="500m"), f"{IN_POLICY}.oomBumpUpRatio"),
        (policy(oomMinBumpUp="-1"), f"{IN_POLICY}.oomMinBumpUp"),
        (policy(memoryAggregationIntervalCount=0), f"{IN_POLICY}.memoryAggregationIntervalCount"),
        ({"startupBoost": {"cpu": {}}}, "spec.startupBoost.cpu.type"),
        ({"startupBoost": {"cpu": {"type": "Factor"}}}, "spec.startupBoost.cpu.factor"),
        ({"startupBoost": {"cpu": {"type": "Factor", "factor": 0}}}, "spec.startupBoost.cpu.factor"),
        ({"startupBoost": {"cpu": {"type": "Quantity"}}}, "spec.startupBoost.cpu.quantity"),
        ({"startupBoost": {"cpu": {"type": "Else"}}}, "spec.startupBoost.cpu.type"),
    ],
)
def test_a_wrong_field_is_named(spec: dict[str, Any], path: str) -> None:
    assert wrong(EVERYTHING, **spec) == [path]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"mode": "InPlace"}, "spec.updatePolicy.updateMode"),
        ({"startupBoost": FACTOR}, "spec.startupBoost"),
        (policy(startupBoost=FACTOR), f"{IN_POLICY}.startupBoost"),
        ({"updatePolicy": {"evictAfterOOMSeconds": 5}}, "spec.updatePolicy.evictAfterOOMSeconds"),
        (policy(oomMinBumpUp="1"), f"{IN_POLICY}.oomMinBumpUp"),
    ],
)
def test_a_gated_field_is_dropped_unless_the_object_already_has_it(spec: dict[str, Any], path: str) -> None:
    assert wrong(allowed_for({}, None), **spec) == [path]
    assert wrong(allowed_for({}, vpa(**spec)), **spec) == []
    gates = dict.fromkeys(("CPUStartupBoost", "PerVPAConfig", "InPlace"), True)
    assert wrong(allowed_for(gates, None), **spec) == []


def test_a_target_is_only_required_of_new_objects() -> None:
    assert wrong(Allowed(), targetRef=None) == []
