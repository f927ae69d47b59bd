"""A change of a pod that wakes no ReplicaSet would not have changed its status."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.controllers.owners import controller_of
from podfit.controllers.workloads import podstate

NOW = 1_700_000_000.0
times = st.sampled_from(["2023-11-14T22:13:10Z", "2023-11-14T22:13:15Z"])
condition = st.fixed_dictionaries(
    {"type": st.sampled_from(["Ready", "PodResizeInProgress"]), "status": st.sampled_from(["True", "False"])},
    optional={"lastTransitionTime": times, "observedGeneration": st.integers(1, 2)},
)
owner = st.fixed_dictionaries({"kind": st.just("ReplicaSet"), "name": st.just("r"), "controller": st.booleans()})
pod = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("p"), "uid": st.sampled_from("uv")},
            optional={
                "labels": st.dictionaries(st.just("app"), st.sampled_from("ab")),
                "ownerReferences": st.lists(owner, max_size=1),
                "deletionTimestamp": times,
                "generation": st.integers(1, 2),
            },
        )
    },
    optional={
        "status": st.fixed_dictionaries(
            {},
            optional={
                "phase": st.sampled_from(["Pending", "Running", "Failed"]),
                "conditions": st.lists(condition, max_size=2, unique_by=lambda condition: str(condition["type"])),
                "observedGeneration": st.integers(1, 2),
            },
        )
    },
)


def counted(obj: Object) -> list[object]:
    """Everything that a ReplicaSet reads of a pod to count it."""
    return [
        obj["metadata"]["uid"],
        obj["metadata"].get("labels") or {},
        controller_of(obj),
        podstate.is_deleting(obj),
        podstate.is_active(obj),
        podstate.phase(obj),
        podstate.is_ready(obj),
        *(podstate.available_in(obj, seconds, NOW) for seconds in (0, 5, 10)),
    ]


@given(pod, pod, st.booleans(), st.booleans())
def test_pods_that_count_the_same_are_counted_the_same(one: Object, other: Object, meta: bool, status: bool) -> None:
    if meta:
        other = {**other, "metadata": one["metadata"]}
    if status:
        other = {**other, "status": one.get("status")}
    if podstate.counts_the_same(one, other):
        assert counted(one) == counted(other)


@given(pod, st.integers(3, 9))
def test_how_far_a_resize_is_changes_no_count(one: Object, generation: int) -> None:
    status = {**(one.get("status") or {}), "observedGeneration": generation, "containerStatuses": [{"name": "c"}]}
    resized = {**one, "metadata": {**one["metadata"], "generation": generation}, "status": status}
    assert podstate.counts_the_same(one, resized)
