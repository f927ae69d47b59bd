"""Containers, resources and whole pods without a recommendation are not changed, running or new."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.selectors import LabelSelector
from podfit.vpa.admission.decide.gate import must_wait
from podfit.vpa.admission.decide.review import ReviewContext, answer_to, index_vpas
from podfit.vpa.model.changing.boost import annotation_key
from podfit.vpa.model.fitting.capping import capped_for_pod
from podfit.vpa.model.fitting.container_resources import resources_for_pod
from podfit.vpa.model.fitting.limitranges import merged
from podfit.vpa.model.objects.matching import Target
from podfit.vpa.model.objects.policy import recommendation, recommending
from podfit.vpa.updater.decide.actions import resize
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.priority import candidates

BOTH = {"cpu": "100m", "memory": "100Mi"}
PROVIDED = "RecommendationProvided"
SMALL_PODS = [
    {"metadata": {"namespace": "n", "name": "l"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "300m"}}]}}
]
READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}


def pod(*names: str, **meta: Any) -> Object:
    resources = {"requests": BOTH, "limits": {"cpu": "200m", "memory": "200Mi"}}
    owner = {"kind": "ReplicaSet", "name": "r", "controller": True}
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {}, "ownerReferences": [owner], **meta},
        "spec": {"containers": [{"name": name, "resources": resources} for name in names]},
        "status": {"phase": "Running", "startTime": "2020-01-01T00:00:00Z", "conditions": [READY]},
    }


def vpa(provided: str = "", **targets: dict[str, str]) -> Object:
    entries = [{"containerName": name, "target": target} for name, target in targets.items()]
    conditions = [{"type": PROVIDED, "status": provided}] if provided else []
    return {
        "metadata": {"name": "v", "namespace": "n"},
        "spec": {
            "targetRef": {"kind": "ReplicaSet", "name": "r", "apiVersion": "apps/v1"},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "10m"}}]},
        },
        "status": {"recommendation": {"containerRecommendations": entries}, "conditions": conditions},
    }


def review(object: Object) -> Object:
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return {"request": {"uid": "u", "namespace": "n", "resource": resource, "object": object}}


def world(object: Object, **more: Any) -> ReviewContext:
    owner = Target("n", "ReplicaSet", "r")
    return ReviewContext(index_vpas([object]), lambda _: LabelSelector.parse(""), lambda namespace, _: owner, **more)


def test_a_limit_range_of_pods_scales_only_what_is_recommended() -> None:
    capped = capped_for_pod(vpa(a={"cpu": "150m"}), pod("a", "b"), merged(SMALL_PODS, "n"))
    assert capped is not None
    assert [(entry.container, set(entry.target)) for entry in capped[0]] == [("a", {"cpu"})]
    assert capped[0][0].target["cpu"] < Quantity.parse("150m")


def test_a_resource_without_recommendation_does_not_become_zero_to_fit_a_limit_range() -> None:
    given = vpa(a={"memory": "50Mi"}, b={"cpu": "400m", "memory": "50Mi"})
    found = resources_for_pod(given, pod("a", "b"), merged(SMALL_PODS, "n"))[0]
    assert set(found[0].requests) == {"memory"}
    assert set(found[1].requests) == {"cpu", "memory"}


def test_nothing_recommended_is_no_reason_to_fit_a_limit_range() -> None:
    found = capped_for_pod(vpa(), pod("a", "b"), merged(SMALL_PODS, "n"))
    assert found == ([], {})


@pytest.mark.parametrize("given", [vpa(), vpa(other=BOTH), vpa("False", a={"cpu": "1m"})])
def test_a_pod_is_not_a_candidate_without_a_recommendation_however_low_the_threshold(given: Object) -> None:
    assert candidates([pod("a")], given, 2e9, UpdateConfig(pod_update_threshold=0.0)) == []
    assert resize(pod("a"), given, 2e9) is None


@pytest.mark.parametrize("given", [vpa(), vpa(other=BOTH), vpa(a={}), vpa("False", a={"cpu": "1m"})])
def test_a_new_pod_is_admitted_unchanged_without_a_recommendation(given: Object) -> None:
    verdict = answer_to(review(pod("a")), world(given))
    assert verdict.allowed and not verdict.patch and verdict.outcome == "skipped"


def test_with_the_flag_a_new_pod_without_recommendation_is_annotated_as_upstream_does() -> None:
    verdict = answer_to(review(pod("a")), world(vpa(), change_without_recommendation=True))
    assert any(op["path"].endswith("vpaObservedContainers") for op in verdict.patch or ())


def test_a_withdrawn_recommendation_counts_as_none_until_a_recommender_gives_another() -> None:
    withdrawn = vpa("False", a=BOTH)
    assert recommendation(withdrawn) is None
    assert recommendation(vpa("True", a=BOTH)) == recommendation(vpa(a=BOTH)) is not None
    fresh = {"containerRecommendations": [{"containerName": "a", "target": BOTH}]}
    assert recommendation(recommending(withdrawn, fresh)) == fresh


def test_a_pod_that_requires_an_autoscaler_waits_for_it_not_for_its_recommendation() -> None:
    waiting = pod("a", annotations={"podfit.dev/requires-vpa": "true"})
    assert must_wait(waiting, None) and not must_wait(waiting, vpa("False", a=BOTH))


def test_a_boost_ends_at_the_original_size_where_no_cpu_is_recommended() -> None:
    had = {"requests": BOTH, "limits": {"cpu": "200m", "memory": "200Mi"}}
    boosted = pod("a", "b", annotations={annotation_key("a"): json.dumps(had)})
    boosted["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "900m", "memory": "100Mi"}}
    given = vpa(a={"memory": "300Mi"}, b={"cpu": "50m", "memory": "50Mi"})
    made = resize(boosted, given, 2e9)
    assert made is not None and made.unboosted == ("a",)
    asked = {op["path"]: op["value"] for op in made.patch}
    assert asked["/spec/containers/0/resources/requests/cpu"] == "100m"
    assert asked["/spec/containers/0/resources/requests/memory"] == "300Mi"
    assert asked["/spec/containers/1/resources/requests/cpu"] == "50m"
