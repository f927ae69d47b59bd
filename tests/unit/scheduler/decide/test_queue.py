"""The order in which pods are tried, and their back-off."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.scheduler.decide.pod.pods import shape_of
from podfit.scheduler.decide.queue import PodQueue


def pod(name: str, priority: int = 0, uid: str = "") -> Object:
    meta = {"name": name, "namespace": "ns", "uid": uid or name}
    return {"metadata": meta, "spec": {"containers": [{"name": "c"}], "priority": priority}}


def drain(queue: PodQueue) -> list[str]:
    found = []
    while (entry := queue.pop()) is not None:
        found.append(entry.key[1])
    return found


def test_important_pods_go_first_then_older_ones() -> None:
    queue = PodQueue()
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        queue.add(pod(name, priority), 0.0)
    assert drain(queue) == ["b", "d", "a", "c"]


def test_a_pod_added_twice_is_tried_once() -> None:
    queue = PodQueue()
    queue.add(pod("a"), 0.0)
    queue.add(pod("a"), 0.0)
    assert drain(queue) == ["a"]


def test_a_removed_pod_is_not_tried() -> None:
    queue = PodQueue()
    queue.add(pod("a"), 0.0)
    queue.remove(("ns", "a"))
    assert not queue.due
    assert drain(queue) == []


def test_another_pod_of_the_same_name_starts_from_scratch() -> None:
    queue = PodQueue()
    first = queue.add(pod("a"), 0.0)
    assert queue.pop() is first
    second = queue.add(pod("a", uid="other"), 1.0)
    assert second is not first
    queue.park(first, shape_of(first.pod, None), (), 1.0)
    assert not queue.groups
    assert queue.pop() is second


def test_waiting_pods_of_one_shape_are_a_group_led_by_the_most_important() -> None:
    queue = PodQueue()
    for name, priority in (("a", 0), ("b", 5), ("c", 1)):
        queue.add(pod(name, priority), 0.0)
    for _ in range(3):
        entry = queue.pop()
        assert entry is not None
        queue.park(entry, shape_of(entry.pod, None), (1,), 0.0, frozenset({"NodeResourcesFit"}))
    (group,) = queue.groups.values()
    assert queue.refused_by("NodeResourcesFit") == 3
    heads = []
    while (head := group.head()) is not None:
        heads.append(head.key[1])
        queue.activate(head)
    assert heads == ["b", "c", "a"]
    assert not queue.groups
    assert drain(queue) == ["b", "c", "a"]


def test_failed_pods_back_off_longer_each_time() -> None:
    queue = PodQueue()
    entry = queue.add(pod("a"), 0.0)
    now = 0.0
    waits = []
    for _ in range(6):
        assert queue.pop() is entry
        queue.back_off(entry, now)
        due = queue.release_due(now)
        assert due is not None
        assert not queue.due
        waits.append(due - now)
        now = due
        assert queue.release_due(now) is None
    assert waits == [1, 2, 4, 8, 10, 10]


def test_gated_pods_are_counted_but_not_tried() -> None:
    queue = PodQueue()
    queue.add(pod("a"), 0.0, gated=True)
    assert queue.counts()["gated"] == 1
    assert queue.pop() is None
    queue.add(pod("a"), 0.0)
    assert drain(queue) == ["a"]


def test_pods_that_waited_very_long_are_retried() -> None:
    queue = PodQueue()
    for name, since in (("old", 0.0), ("young", 100.0)):
        queue.add(pod(name), since)
        entry = queue.pop()
        assert entry is not None
        queue.park(entry, shape_of(entry.pod, None), (), since)
    assert queue.flush(300.0, 300.0) == 1
    assert drain(queue) == ["old"]
