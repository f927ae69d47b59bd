"""Admission answers any request, and never prevents a pod from starting."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.api.quantity import Quantity
from podfit.api.selectors import EVERYTHING
from podfit.vpa.admission.decide.review import ReviewContext, answer, index_vpas
from podfit.vpa.model.fitting.bounds import cap_to_policy
from podfit.vpa.model.fitting.limits import proportional_limit
from podfit.vpa.model.objects.matching import Target

words = st.sampled_from(["app", "cpu", "memory", "100m", "1Gi", "Auto", "Off", "Factor", "*", ""])
scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | words
fields = st.sampled_from(
    [
        "metadata",
        "spec",
        "containers",
        "name",
        "resources",
        "requests",
        "limits",
        "cpu",
        "memory",
        "annotations",
        "updatePolicy",
        "updateMode",
        "resourcePolicy",
        "containerPolicies",
        "containerName",
        "minAllowed",
        "maxAllowed",
        "startupBoost",
        "type",
        "factor",
        "mode",
    ]
)
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4), max_leaves=12
)
quantities = st.integers(0, 10**12).map(lambda milli: Quantity.of_milli(milli))

VPA = {
    "metadata": {"namespace": "ns", "name": "vpa"},
    "spec": {
        "targetRef": {"kind": "ReplicaSet", "name": "web"},
        "startupBoost": {"cpu": {"type": "Factor", "factor": 2}},
    },
    "status": {"recommendation": {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "1"}}]}},
}


def world() -> ReviewContext:
    top = Target("ns", "ReplicaSet", "web")
    return ReviewContext(index_vpas([VPA]), lambda _: EVERYTHING, lambda *_: top, gates={"CPUStartupBoost": True})


def review(group: str, resource: str, object: Any, old: Any = None) -> str:
    request = {"uid": "u", "resource": {"group": group, "version": "v1", "resource": resource}, "namespace": "ns"}
    return json.dumps({"request": {**request, "object": object, "oldObject": old}})


@settings(max_examples=200)
@given(spec=json_values, meta=json_values)
def test_no_pod_is_ever_refused(spec: Any, meta: Any) -> None:
    if isinstance(meta, dict):
        meta["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
    assert answer(review("", "pods", {"metadata": meta, "spec": spec}), world()).allowed


@settings(max_examples=200)
@given(spec=json_values, old=json_values)
def test_every_autoscaler_object_gets_an_answer(spec: Any, old: Any) -> None:
    verdict = answer(review("autoscaling.k8s.io", "verticalpodautoscalers", {"spec": spec}, old), world())
    assert verdict.allowed == (verdict.status is None)


@given(body=st.text() | st.binary())
def test_an_invalid_review_is_allowed(body: Any) -> None:
    assert answer(body, world()).allowed


@given(amount=quantities, least=quantities, most=quantities)
def test_policy_keeps_a_request_between_its_bounds(amount: Quantity, least: Quantity, most: Quantity) -> None:
    capped, _ = cap_to_policy({"cpu": amount}, {"cpu": least}, {"cpu": most})
    if most:
        assert capped["cpu"] <= most
    if least and (not most or least <= most):
        assert capped["cpu"] >= least


@given(limit=quantities, request=quantities, recommended=quantities)
def test_limit_is_never_below_the_request_if_it_was_not_before(
    limit: Quantity, request: Quantity, recommended: Quantity
) -> None:
    made, _ = proportional_limit("cpu", limit, request, recommended, None)
    if made is not None and limit >= request and made.milli < 2**63 - 1:
        assert made >= recommended
