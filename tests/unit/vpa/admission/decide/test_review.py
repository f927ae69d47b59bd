"""The response to a whole admission request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.autoscalers import container, pod, recommended, vpa

from podfit.api.objects import Object
from podfit.api.registry.vpa_versions import V1ALPHA1
from podfit.api.selectors import LabelSelector
from podfit.vpa.admission.decide.review import (
    AUTO_WARNING,
    GROUP,
    Chosen,
    ReviewAnswer,
    ReviewContext,
    answer,
    answer_to,
    index_vpas,
)
from podfit.vpa.model.objects.matching import Target

EVERYTHING = LabelSelector.parse("")
WEB = Target("ns", "ReplicaSet", "web-1")
POD = pod("p", container(requests={"cpu": "50m"}))
NEW = recommended(target={"cpu": "1"})


def world(*scalers: Object) -> ReviewContext:
    return ReviewContext(index_vpas(scalers), lambda _: EVERYTHING, lambda *_: WEB)


def review(obj: Any, resource: str = "pods", group: str = "", version: str = "v1", **more: Any) -> Object:
    named = {"group": group, "version": version, "resource": resource}
    return {"request": {"uid": "u", "namespace": "ns", "resource": named, "object": obj, **more}}


def admit_scaler(obj: Any, **more: Any) -> ReviewAnswer:
    return answer_to(review(obj, "verticalpodautoscalers", GROUP, **more), world())


def test_a_pod_is_patched_by_the_autoscaler_that_controls_it() -> None:
    verdict = answer_to(review(POD), world(vpa(NEW)))
    assert verdict.allowed and verdict.outcome == "applied"
    assert {"op": "add", "path": "/spec/containers/0/resources/requests/cpu", "value": "1"} in (verdict.patch or [])


def test_pods_without_an_autoscaler_or_a_recommendation_are_not_changed() -> None:
    for seen, why in ((world(), "no autoscaler controls this pod"), (world(vpa()), "no recommendation")):
        verdict = answer_to(review(POD), seen)
        assert (verdict.allowed, verdict.patch, verdict.outcome) == (True, None, "skipped")
        assert why in verdict.why


def test_an_autoscaler_that_was_found_before_is_not_searched_again() -> None:
    assert answer_to(review(POD), world(), Chosen(vpa(NEW))).patch
    assert answer_to(review(POD), world(vpa(NEW)), Chosen(None)).patch is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"7",
        b"{}",
        json.dumps(review({"spec": {"containers": 7}})).encode(),
        json.dumps(review(POD, "nodes")).encode(),
    ],
)
def test_what_cannot_be_read_is_let_through(body: bytes) -> None:
    verdict = answer(body, world(vpa(NEW)))
    assert verdict.allowed and verdict.patch is None and verdict.outcome == "error" and verdict.why


def test_a_pod_of_another_version_is_let_through() -> None:
    assert answer_to(review(POD, version="v2"), world(vpa(NEW))).why == "only v1 Pods are supported"


def test_a_boost_that_makes_no_sense_lets_the_pod_through() -> None:
    scaler = vpa(NEW, startupBoost={"cpu": {"type": "Factor", "factor": 0}})
    seen = ReviewContext(index_vpas([scaler]), lambda _: EVERYTHING, lambda *_: WEB, gates={"CPUStartupBoost": True})
    verdict = answer_to(review(POD), seen)
    assert verdict.allowed and verdict.why == "boost factor must be >= 1"


def test_an_autoscaler_without_update_policy_gets_the_default() -> None:
    scaler = vpa()
    del scaler["spec"]["updatePolicy"]
    assert admit_scaler(scaler).patch == [
        {"op": "add", "path": "/spec/updatePolicy", "value": {"updateMode": "Recreate"}}
    ]
    assert admit_scaler({**scaler, "apiVersion": V1ALPHA1}).patch == [
        {"op": "add", "path": "/spec/updatePolicy", "value": {"mode": "Recreate"}}
    ]


def test_mode_auto_is_allowed_with_a_warning() -> None:
    verdict = admit_scaler(vpa(mode="Auto"))
    assert verdict.allowed and verdict.to_response()["response"]["warnings"] == [AUTO_WARNING]


def test_an_invalid_autoscaler_is_rejected_with_the_field() -> None:
    verdict = admit_scaler(vpa(mode="Sometimes"))
    assert not verdict.allowed and "spec.updatePolicy.updateMode" in verdict.why
    response = verdict.to_response()["response"]
    assert response["status"]["code"] == 422 and "patchType" not in response


def test_an_autoscaler_with_a_value_of_a_wrong_type_is_rejected_in_the_decoders_words() -> None:
    verdict = admit_scaler({"spec": {"updatePolicy": {"updateMode": 7}}})
    assert (
        "cannot unmarshal number into Go struct field VerticalPodAutoscaler.spec.updatePolicy.updateMode" in verdict.why
    )
