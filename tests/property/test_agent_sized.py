"""Shared or cached sizes of pods equal recomputed ones."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from podfit.agent.decide.resize import kernel
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.pods.record import PodRecord
from podfit.agent.pods.story import Story
from podfit.api.pods.resources import pod_limits, pod_requests, qos_class
from podfit.api.resize.states import Allocated, desired_of, equal, requests_equal, resized
from podfit.kit.clock import FakeClock

LISTED = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["1", "1000m", "500m"]), "memory": st.sampled_from(["1Mi", "2Mi"])}
)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": LISTED, "limits": LISTED, "claims": st.just([])})
NAMES = {"containers": "ab", "initContainers": "ij"}


def containers(key: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries(
        {"name": st.sampled_from(NAMES[key])},
        optional={"resources": RESOURCES, "restartPolicy": st.just("Always")}
        if key == "initContainers"
        else {"resources": RESOURCES},
    )
    return st.lists(one, max_size=2, unique_by=lambda found: found["name"])


def statuses(key: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    reported = {"resources": st.none() | RESOURCES, "allocatedResources": LISTED}
    one = st.fixed_dictionaries({"name": st.sampled_from(NAMES[key] + "x")}, optional=reported)
    return st.lists(one, max_size=2, unique_by=lambda found: found["name"])


SPECS = st.fixed_dictionaries(
    {"containers": containers("containers")},
    optional={"initContainers": containers("initContainers"), "resources": RESOURCES, "overhead": LISTED},
)
INFEASIBLE = [{"type": "PodResizePending", "reason": "Infeasible"}]
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "containerStatuses": statuses("containers"),
        "initContainerStatuses": statuses("initContainers"),
        "resources": RESOURCES,
        "conditions": st.just(INFEASIBLE),
    },
)
PODS = st.fixed_dictionaries({"metadata": st.just({"name": "p", "uid": "u"}), "spec": SPECS, "status": STATUSES})


def telling(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod with a status that reports its own sizes, as of a pod without a resize."""
    reported = [
        {
            "name": container["name"],
            "resources": container.get("resources") or {},
            "allocatedResources": (container.get("resources") or {}).get("requests") or {},
        }
        for container in pod["spec"]["containers"]
    ]
    return {**pod, "status": {**pod["status"], "containerStatuses": reported}}


def sizes_of(pod: dict[str, Any]) -> Allocated:
    desired = desired_of(pod)
    return Allocated(desired.containers, desired.pod)


SIDECAR = {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
REFUSED = {"conditions": INFEASIBLE, "initContainerStatuses": [{"name": "i", "resources": {}}]}
NAMED: dict[str, Any] = {"metadata": {"name": "p", "uid": "u"}}


@settings(max_examples=300)
@given(PODS, PODS, st.booleans())
@example(
    {**NAMED, "spec": {"containers": [], "initContainers": [SIDECAR]}, "status": REFUSED},
    {**NAMED, "spec": {"containers": []}, "status": {}},
    False,
)
def test_a_pod_counts_the_largest_of_its_sizes(pod: dict[str, Any], other: dict[str, Any], at_rest: bool) -> None:
    pod = telling(pod) if at_rest else pod
    for sizes in (sizes_of(pod), sizes_of(other)):
        expected = pod_requests(resized(pod, sizes), use_status=True)
        assert Sized(pod, sizes).held == expected


@settings(max_examples=300)
@given(PODS)
def test_a_pod_without_a_controller_is_a_workload_of_its_own(pod: dict[str, Any]) -> None:
    record = PodRecord("u", pod, Story(FakeClock()))
    mine, worked_out = record.sized(record.desired), resized(pod, desired_of(pod))
    assert mine.requests == pod_requests(worked_out)
    assert mine.limits == pod_limits(worked_out)
    assert mine.held == pod_requests(worked_out, use_status=True)
    qos = qos_class(pod)
    assert kernel.pod_cgroup(mine, qos) == kernel.pod_cgroup(Sized(pod, desired_of(pod)), qos)


@settings(max_examples=300)
@given(PODS, PODS)
def test_a_status_that_is_answered_leaves_the_sizes_as_they_are(pod: dict[str, Any], other: dict[str, Any]) -> None:
    record = PodRecord("u", pod, Story(FakeClock()))
    sizes = sizes_of(other)
    assert record.sized(sizes).requests == pod_requests(resized(pod, sizes))
    after = {**pod, "spec": {**pod["spec"]}, "status": other["status"]}
    record.with_status(after)
    assert record.sized(sizes).requests == pod_requests(resized(after, sizes))
    assert record.sized(sizes).held == pod_requests(resized(after, sizes), use_status=True)
    record.pod = other
    record.with_status(other)
    assert record.sized(sizes).requests == pod_requests(resized(other, sizes))


@settings(max_examples=300)
@given(PODS, PODS)
def test_sizes_shared_with_an_earlier_state_are_those_of_the_spec(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    known, anew = desired_of(before), desired_of(after)
    shared = desired_of(after, known)
    assert shared == anew
    assert equal(shared, known) == equal(anew, known)
    assert desired_of({**before, "spec": {**before["spec"]}}, known) is known


def limited(pod: dict[str, Any], limits: dict[str, str]) -> dict[str, Any]:
    """The pod with other limits, and nothing else changed."""
    spec = dict(pod["spec"])
    for key in NAMES:
        if key in spec:
            spec[key] = [
                {**item, "resources": {**(item.get("resources") or {}), "limits": limits}} for item in spec[key]
            ]
    return {**pod, "spec": spec}


@settings(max_examples=300)
@given(PODS, PODS, LISTED, st.booleans())
def test_requests_that_are_written_the_same_add_up_to_the_same(
    pod: dict[str, Any], other: dict[str, Any], limits: dict[str, str], alike: bool
) -> None:
    wished, promised = sizes_of(pod), sizes_of(limited(pod, limits) if alike else other)
    assert requests_equal(wished, promised) or not alike
    if requests_equal(wished, promised):
        assert pod_requests(resized(pod, wished)) == pod_requests(resized(pod, promised))
