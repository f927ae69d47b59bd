"""Conversion of autoscaler objects between v1 and v1alpha1 loses nothing, whichever version comes first."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.api.registry.vpa_versions import NOTE, V1, V1ALPHA1, UnknownVersion, convert

amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["0", "100m", "64Mi", 2]))
required = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})
names = st.sampled_from(["", "*", "main", "side/car"])
words = st.text("abc./-", max_size=4)
labels = st.dictionaries(words, words, max_size=2)
selection = st.one_of(
    st.fixed_dictionaries({"targetRef": st.just({"kind": "Deployment", "name": "web"})}),
    st.fixed_dictionaries({"selector": st.fixed_dictionaries({}, optional={"matchLabels": labels})}),
)
modes = st.sampled_from(["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto"])


def objects(version: str) -> st.SearchStrategy[Object]:
    alpha = version == V1ALPHA1
    name, low, high = (
        ("name", "minRecommended", "maxRecommended") if alpha else ("containerName", "lowerBound", "upperBound")
    )
    amount = required if alpha else amounts
    policy = st.fixed_dictionaries(
        {},
        optional={
            name: names,
            "mode": st.sampled_from(["On" if alpha else "Auto", "Off"]),
            "minAllowed": amount,
            "maxAllowed": amount,
            "controlledValues": st.sampled_from(["RequestsOnly", "RequestsWithoutLimits"]),
            "oomBumpUpRatio": st.just("1.5"),
        },
    )
    size = st.fixed_dictionaries(
        {"target": amount}, optional={name: names, low: amount, high: amount, "uncappedTarget": amount}
    )
    update = st.fixed_dictionaries({}, optional={"mode" if alpha else "updateMode": modes, "minReplicas": st.just(1)})
    more = st.fixed_dictionaries(
        {},
        optional={
            "updatePolicy": update,
            "resourcePolicy": st.fixed_dictionaries({}, optional={"containerPolicies": st.lists(policy, max_size=3)}),
            "recommenders": st.just([{"name": "batch"}]),
        },
    )
    status = st.fixed_dictionaries(
        {},
        optional={
            "recommendation": st.fixed_dictionaries(
                {}, optional={"containerRecommendations": st.lists(size, max_size=3)}
            ),
            "lastUpdateTime": st.just("2026-01-01T00:00:00Z"),
            "statusMessage": words,
            "conditions": st.just([{"type": "RecommendationProvided", "status": "True"}]),
        },
    )
    meta = st.fixed_dictionaries(
        {"name": st.just("web")},
        optional={"annotations": st.dictionaries(words, words, min_size=1, max_size=2), "labels": labels},
    )
    return st.builds(
        lambda meta, chosen, more, status: {
            "apiVersion": version,
            "kind": "VerticalPodAutoscaler",
            "metadata": meta,
            "spec": {**chosen, **more},
            **({"status": status} if status else {}),
        },
        meta,
        selection,
        more,
        status,
    )


def around(obj: Object) -> Object:
    other = V1 if obj["apiVersion"] == V1ALPHA1 else V1ALPHA1
    return convert(convert(obj, other), obj["apiVersion"])


@given(st.one_of(objects(V1), objects(V1ALPHA1)))
def test_an_object_read_in_one_version_and_written_in_the_other_is_what_it_was(obj: Object) -> None:
    before = copy.deepcopy(obj)
    assert around(obj) == before
    assert obj == before, "the given object is not changed"


@given(objects(V1ALPHA1))
def test_a_change_by_a_v1_client_reaches_v1alpha1_and_preserves_limits(obj: Object) -> None:
    shown = convert(obj, V1)
    policies = (shown["spec"].get("resourcePolicy") or {}).get("containerPolicies") or []
    for policy in policies:
        policy["minAllowed"] = {"cpu": "7"}
    back = convert(shown, V1ALPHA1)
    given_policies = (obj["spec"].get("resourcePolicy") or {}).get("containerPolicies") or []
    for was, now in zip(
        given_policies, (back["spec"].get("resourcePolicy") or {}).get("containerPolicies") or [], strict=True
    ):
        assert now["minAllowed"]["requests"] == {"cpu": "7"}
        assert now["minAllowed"].get("limits") == (was.get("minAllowed") or {}).get("limits")


@given(
    objects(V1),
    st.sampled_from(["", "{", "[]", "{}", '{"a":1}', '{"containerPolicies/gone/0/minAllowed":{"limits":{}}}']),
)
def test_a_note_that_fits_no_container_stays_in_the_object(obj: Object, text: str) -> None:
    obj["metadata"]["annotations"] = {NOTE: text}
    assert around(obj) == obj


def test_the_designs_object_is_the_v1_object_under_other_names() -> None:
    design = {
        "apiVersion": V1ALPHA1,
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "updatePolicy": {"mode": "Initial"},
            "resourcePolicy": {
                "containerPolicies": [{"name": "*", "mode": "On", "minAllowed": {"requests": {"cpu": "1"}}}]
            },
        },
        "status": {
            "recommendation": {
                "containerRecommendations": [
                    {"name": "main", "target": {"requests": {"cpu": "2"}}, "minRecommended": {"requests": {"cpu": "1"}}}
                ]
            }
        },
    }
    assert convert(design, V1) == {
        "apiVersion": V1,
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "updatePolicy": {"updateMode": "Initial"},
            "resourcePolicy": {
                "containerPolicies": [{"containerName": "*", "mode": "Auto", "minAllowed": {"cpu": "1"}}]
            },
        },
        "status": {
            "recommendation": {
                "containerRecommendations": [
                    {"containerName": "main", "target": {"cpu": "2"}, "lowerBound": {"cpu": "1"}}
                ]
            }
        },
    }


def test_other_versions_are_refused() -> None:
    for given_version, wanted in ((V1, f"{V1}beta2"), ("autoscaling.k8s.io/v1beta2", V1)):
        with pytest.raises(UnknownVersion, match="cannot convert"):
            convert({"apiVersion": given_version}, wanted)
