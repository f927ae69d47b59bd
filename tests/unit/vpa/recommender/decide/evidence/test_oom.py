"""Out-of-memory kills in changes of pods, and in eviction events."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.autoscalers import START, START_S, container, pod

from podfit.api.objects import Object
from podfit.vpa.recommender.decide.evidence.oom import Oom, killed, killed_at, ooms_between, ooms_of_eviction

END = {"reason": "OOMKilled", "finishedAt": START}


def seen(restarts: int = 0, last: Any = None, memory: str = "1Mi", **state: Any) -> Object:
    status = {
        "name": "app",
        "restartCount": restarts,
        "state": state,
        "lastState": {"terminated": last} if last else {},
    }
    return pod("p", container(requests={"memory": memory}), statuses=[status])


KILL = Oom("ns", "p", "app", START_S, 1 << 20)


@pytest.mark.parametrize(
    ("before", "after", "kills"),
    [
        (seen(running={}), seen(terminated=END), [KILL]),
        (seen(running={}), seen(1, END, running={}), [KILL]),
        (seen(terminated=END), seen(terminated=END), []),
        (seen(terminated=END), seen(1, terminated=END), [KILL]),
        (seen(running={}), seen(terminated={"reason": "Error"}), []),
        (seen(1, END, running={}), seen(1, END, running={}), []),
        (pod("p"), seen(terminated=END), []),
    ],
)
def test_a_change_of_a_pod_reveals_a_kill_or_none(before: Object, after: Object, kills: list[Oom]) -> None:
    assert ooms_between(before, after) == kills


def test_the_limit_at_the_kill_is_read_from_the_older_pod_if_the_container_runs_again() -> None:
    before, after = seen(running={}), seen(1, END, memory="2Mi", running={})
    assert [item.memory for item in ooms_between(before, after)] == [1 << 20]


def test_a_container_without_request_was_allowed_nothing_known() -> None:
    assert killed_at(pod(), "app", START_S).memory == 0
    assert not killed(None) and killed(END)


def event(**notes: str) -> Object:
    return {
        "reason": "Evicted",
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p"},
        "metadata": {"creationTimestamp": START, "annotations": notes},
    }


def test_an_eviction_names_the_containers_that_used_too_much_memory() -> None:
    found = ooms_of_eviction(
        event(
            offending_containers="a,b,c",
            offending_containers_usage="1Mi,2Mi,nonsense",
            starved_resource="memory,ephemeral-storage,memory",
        )
    )
    assert found == [Oom("ns", "p", "a", START_S, 1 << 20)]


@pytest.mark.parametrize(
    "given",
    [
        {**event(), "reason": "Preempted"},
        {**event(), "involvedObject": {"kind": "Node"}},
        event(offending_containers="a,b", offending_containers_usage="1", starved_resource="memory"),
    ],
)
def test_other_events_name_none(given: Object) -> None:
    assert ooms_of_eviction(given) == []
