"""Every out-of-memory kill is counted once."""

from __future__ import annotations

from tests.support.autoscalers import at, container, pod

from podfit.api.objects import Object
from podfit.vpa.recommender.decide.evidence.kills import Count, Kills

ID = ("ns", "p")
RUNNING, WAITING = {"running": {}}, {"waiting": {}}


def end(number: int, reason: str = "OOMKilled") -> Object:
    return {"terminated": {"reason": reason, "containerID": f"c{number}", "finishedAt": at(number)}}


def seen(state: Object, last: Object | None = None, restarts: int = 0) -> Object:
    status = {"name": "app", "restartCount": restarts, "state": state, "lastState": last or {}}
    return pod("p", container(requests={"memory": "1Mi"}), statuses=[status])


def count(kills: Kills, *looks: Object) -> list[int]:
    """The number of kills that each observed state reveals."""
    before: Object | None = None
    found = []
    for after in looks:
        found.append(len(kills.seen(ID, before, after, younger=True)))
        before = after
    return found


def test_an_end_that_moves_from_state_to_last_state_is_one_kill() -> None:
    looks = [seen(RUNNING), seen(end(1)), seen(WAITING, end(1)), seen(RUNNING, end(1), 1)]
    assert count(Kills(), *looks) == [0, 1, 0, 0]


def test_ends_of_other_reasons_are_not_kills() -> None:
    assert count(Kills(), seen(RUNNING), seen(end(1, "Error")), seen(RUNNING, end(1, "Error"), 1)) == [0, 0, 0]


def test_kills_between_two_observations_are_counted_by_restarts() -> None:
    assert count(Kills(), seen(RUNNING, end(1), 1), seen(RUNNING, end(4), 4)) == [1, 3]


def test_a_kill_that_the_status_showed_is_not_counted_again_for_the_node() -> None:
    kills, running = Kills(), seen(RUNNING)
    count(kills, running, seen(end(1)))
    assert kills.count_by_node(ID, "app", 1, running, 9.0) == []
    assert [item.instant for item in kills.count_by_node(ID, "app", 3, running, 9.0)] == [9.0, 9.0]
    assert count(kills, seen(end(1)), seen(RUNNING, end(3), 3)) == [0, 0]


def test_counts_of_a_node_from_before_this_process_are_ignored() -> None:
    kills, old = Kills(), seen(RUNNING, end(1), 1)
    kills.seen(ID, None, old)
    assert kills.count_by_node(ID, "app", 5, old, 9.0) == []
    assert len(kills.count_by_node(ID, "app", 6, old, 9.0)) == 1


def test_a_node_that_begins_to_count_again_adds_only_what_is_new() -> None:
    one = Count()
    assert [one.count_by_node(counter, True) for counter in (2, 2, 1, 2)] == [2, 0, 0, 1]


def test_a_pod_that_is_forgotten_is_new_again() -> None:
    kills = Kills()
    assert count(kills, seen(end(1))) == [1]
    kills.forget(ID)
    assert count(kills, seen(end(1))) == [1]
