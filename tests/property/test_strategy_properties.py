"""Properties for any pod: defaulting is idempotent, stored objects are never modified, a resize changes sizes only."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.pods.resources import pod_requests, qos_class
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.strategy.checks import equal

PODS = strategy_for(POD)
NAMES = ("a", "b", "c")
milli = st.integers(0, 4000).map(lambda value: f"{value}m")
mebi = st.integers(0, 4096).map(lambda value: f"{value}Mi")
amounts = st.fixed_dictionaries({}, optional={"cpu": milli, "memory": mebi})
resources = st.fixed_dictionaries({}, optional={"requests": amounts, "limits": amounts})
policies = st.lists(
    st.fixed_dictionaries(
        {"resourceName": st.sampled_from(["cpu", "memory"]), "restartPolicy": st.just("NotRequired")}
    ),
    max_size=2,
    unique_by=lambda policy: policy["resourceName"],
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    containers = [
        {"name": name, "image": draw(st.sampled_from(["x", "x:1"])), "resources": draw(resources)}
        for name in NAMES[: draw(st.integers(1, 3))]
    ]
    if draw(st.booleans()):
        containers[0]["resizePolicy"] = draw(policies)
    spec: dict[str, Any] = {"containers": containers}
    if draw(st.booleans()):
        spec["resources"] = draw(resources)
    made = {"metadata": {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "1"}, "spec": spec}
    PODS.default(made)
    PODS.prepare_create(made)
    return made


@given(pods())
def test_defaults_settle_after_one_round(pod: dict[str, Any]) -> None:
    again = copy.deepcopy(pod)
    PODS.default(again)
    assert again == pod


@given(pods())
def test_an_unchanged_object_keeps_its_generation_on_every_endpoint(pod: dict[str, Any]) -> None:
    for endpoint in ("", "status", "resize", "ephemeralcontainers"):
        new = copy.deepcopy(pod)
        PODS.prepare_update(new, pod, endpoint)
        assert new["metadata"]["generation"] == 1
        assert equal(new, pod)


@given(pods(), st.data())
def test_a_resize_changes_sizes_only_and_leaves_the_stored_object_alone(
    pod: dict[str, Any], data: st.DataObject
) -> None:
    new = copy.deepcopy(pod)
    for container in new["spec"]["containers"]:
        container["resources"] = data.draw(resources)
        container["image"] = "other"
    new["spec"]["restartPolicy"] = "Never"
    new["metadata"]["labels"] = {"a": "b"}
    new["status"] = {"phase": "Failed"}
    before = copy.deepcopy(pod)
    PODS.default(new)
    PODS.prepare_update(new, pod, "resize")
    errors = PODS.validate_update(new, pod, "resize")
    assert pod == before
    rest = copy.deepcopy(new)
    for container, stored in zip(rest["spec"]["containers"], before["spec"]["containers"], strict=True):
        container["resources"] = stored["resources"]
    rest["metadata"].pop("generation"), before["metadata"].pop("generation")
    if "resources" in before["spec"]:
        rest["spec"]["resources"] = before["spec"]["resources"]
    assert rest == before
    if not errors:
        assert qos_class(new) == qos_class(pod)


@given(pods())
def test_a_valid_pod_requests_no_more_than_its_limits(pod: dict[str, Any]) -> None:
    if PODS.validate_create(pod):
        return
    for container in pod["spec"]["containers"]:
        limits = container["resources"].get("limits") or {}
        for name, text in (container["resources"].get("requests") or {}).items():
            assert name not in limits or Quantity.parse(text) <= Quantity.parse(limits[name])
    level = (pod["spec"].get("resources") or {}).get("requests") or {}
    for name, amount in pod_requests(pod, pod_level=False).items():
        assert name not in level or amount <= Quantity.parse(level[name])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_equality_is_symmetric_and_reflexive(one: Any, other: Any) -> None:
    assert equal(one, copy.deepcopy(one))
    assert equal(one, other) == equal(other, one)
