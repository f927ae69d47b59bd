"""Sizes cached for one state of a pod are never used for another."""

from __future__ import annotations

from typing import Any

from podfit.agent.pods.record import PodRecord
from podfit.agent.pods.story import Story
from podfit.api.pods.resources import CPU
from podfit.api.resize.states import Allocated, Desired, desired_of, same
from podfit.kit.clock import FakeClock


def pod(cpu: str, revision: str = "1") -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": "2"}}
    return {
        "metadata": {"name": "p", "uid": "u", "resourceVersion": revision},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def record(body: dict[str, Any]) -> PodRecord:
    return PodRecord("u", body, Story(FakeClock()))


def promise(desired: Desired) -> Allocated:
    return Allocated(desired.containers, desired.pod)


def test_an_allocation_shares_values_computed_for_its_request() -> None:
    one = record(pod("100m"))
    wished = one.sized(one.desired)
    assert one.sized(promise(one.desired)) is wished
    assert wished.requests[CPU].milli == 100
    assert wished.limits[CPU].milli == 2000


def test_a_different_state_of_the_pod_is_recomputed() -> None:
    one = record(pod("100m"))
    assert one.sized(one.desired).requests[CPU].milli == 100
    one.pod = pod("300m", "2")
    assert one.sized(one.desired).requests[CPU].milli == 300


def test_other_sizes_are_recomputed() -> None:
    one = record(pod("100m"))
    before = promise(desired_of(pod("50m")))
    assert one.sized(one.desired).requests[CPU].milli == 100
    assert one.sized(before).requests[CPU].milli == 50
    assert one.sized(before).pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "50m"}
    assert one.pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m"}, "the pod itself is untouched"


def test_a_pod_at_rest_keeps_nothing() -> None:
    one = record(pod("100m"))
    kept = one.sized(one.desired)
    one.rest()
    assert one.sized(one.desired) is not kept


def test_the_desired_size_is_not_read_again_after_a_status_response() -> None:
    one = record(pod("100m"))
    known = one.desired
    one.with_status(pod("100m", "2"))
    assert one.desired is known
    one.pod = pod("300m", "3")
    assert one.desired.containers["c"]["requests"] == {"cpu": "300m"}


def test_sizes_written_in_other_words_are_the_same() -> None:
    assert same({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}})
    assert same({"requests": {"cpu": 1}}, {"requests": {"cpu": "1"}})
    assert same({"limits": {"memory": "0"}}, {"limits": {}})
    assert same(None, {"limits": {"memory": "0"}})
    assert not same({"limits": {"memory": "1Mi"}}, {"limits": {"memory": "1M"}})
    assert not same({"requests": {"cpu": "1"}}, {"limits": {"cpu": "1"}})
