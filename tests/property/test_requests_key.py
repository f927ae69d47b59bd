"""Pods with equal lookup keys have equal sums of requests, so sums may be cached by key."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.api.pods.resources import pod_requests, requests_key, same_requests

AMOUNTS = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["1", "2"]), "memory": st.just("1Mi")})
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
MAYBE = st.none() | RESOURCES


def rows(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries({"name": st.sampled_from("ab"), **fields}), max_size=2)


SPECS = st.fixed_dictionaries(
    {"containers": rows(resources=RESOURCES)},
    optional={
        "initContainers": rows(resources=RESOURCES, restartPolicy=st.sampled_from(["", "Always"])),
        "resources": RESOURCES,
        "overhead": AMOUNTS,
    },
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "containerStatuses": rows(resources=MAYBE, allocatedResources=AMOUNTS),
        "initContainerStatuses": rows(resources=MAYBE, allocatedResources=AMOUNTS),
        "resources": RESOURCES,
        "allocatedResources": AMOUNTS,
        "conditions": st.just([{"type": "PodResizePending", "reason": "Infeasible", "observedGeneration": 1}]),
        "phase": st.sampled_from(["Pending", "Running"]),
    },
)
METADATA = st.fixed_dictionaries({"generation": st.integers(1, 2)})
PODS = st.fixed_dictionaries({"metadata": METADATA, "spec": SPECS, "status": STATUSES})


@settings(max_examples=300)
@given(st.data(), st.booleans())
def test_pods_with_equal_keys_have_equal_requests(data: st.DataObject, use_status: bool) -> None:
    one = data.draw(PODS)
    # Mostly pairs that differ in one part: pods drawn independently hardly ever have equal keys.
    part = data.draw(st.sampled_from(("metadata", "spec", "status", "phase")))
    other = (
        {**one, part: data.draw(PODS)[part]} if part != "phase" else {**one, "status": {**one["status"], "phase": ""}}
    )
    reported = requests_key(one, use_status) == requests_key(other, use_status)
    if reported:
        assert pod_requests(one, use_status=use_status) == pod_requests(other, use_status=use_status)
    if use_status:
        # Equal maps may be written in another order, which may give them different keys.
        same = same_requests(one, other)
        assert same or not reported
        assert not same or pod_requests(one, use_status=True) == pod_requests(other, use_status=True)


@given(PODS)
def test_an_unused_status_does_not_change_the_key(pod: dict[str, Any]) -> None:
    assert requests_key(pod, False) == requests_key({"spec": pod["spec"]}, True)
