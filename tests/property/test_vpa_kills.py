"""In any sequence of observed pod states, each out-of-memory kill is counted once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.vpa.recommender.decide.evidence.kills import Count, Kills

POD = ("default", "web-0")


def pod(state: Any, last: Any, restarts: int) -> Any:
    entry: Any = {"name": "app", "restartCount": restarts, "state": state}
    if last is not None:
        entry["lastState"] = {"terminated": last}
    spec = {"containers": [{"name": "app", "resources": {"requests": {"memory": "100Mi"}}}]}
    return {
        "metadata": {"namespace": POD[0], "name": POD[1]},
        "spec": spec,
        "status": {"containerStatuses": [entry]},
    }


def end(run: int, reason: str) -> Any:
    return {"reason": reason, "finishedAt": f"2024-05-05T10:{run:02}:00Z", "containerID": f"podfit://{run}"}


def life(reasons: list[str], shows: list[set[str]]) -> list[Any]:
    """The statuses of a container whose run i ends for reasons[i]: running, terminated, waiting, running again."""
    last, looks = None, []
    for run, (reason, shown) in enumerate(zip(reasons, shows, strict=True)):
        ended = end(run, reason)
        if "running" in shown:
            looks.append(pod({"running": {}}, last, run))
        if "terminated" in shown:
            looks.append(pod({"terminated": ended}, last, run))
        last = ended
        if "waiting" in shown:
            looks.append(pod({"waiting": {"reason": "CrashLoopBackOff"}}, last, run))
    return looks


def counted(looks: list[Any]) -> int:
    kills, before, found = Kills(), None, 0
    for look in looks:
        found += len(kills.seen(POD, before, look))
        before = look
    return found


SHOWN = st.sets(st.sampled_from(["running", "terminated", "waiting"]), min_size=1)
ENDS = st.lists(st.sampled_from(["OOMKilled", "Error", "Completed"]), min_size=1, max_size=12)


@given(ENDS, st.data())
def test_every_kill_is_counted_once_whichever_states_show_its_end(reasons: list[str], data: st.DataObject) -> None:
    ends = st.sampled_from([{"running", "terminated", "waiting"}, {"running", "waiting"}, {"terminated"}, {"waiting"}])
    shows = [data.draw(ends) for _ in reasons]
    assert counted(life(reasons, shows)) == reasons.count("OOMKilled")


@given(st.integers(1, 12), st.data())
def test_a_series_of_kills_is_counted_in_full_if_some_are_not_observed(number: int, data: st.DataObject) -> None:
    shows = [{"running"}] + [data.draw(SHOWN | st.just(set())) for _ in range(number - 1)]
    looks = life(["OOMKilled"] * number, shows)
    looks.append(pod({"running": {}}, end(number - 1, "OOMKilled"), number))
    assert counted(looks) == number


@given(ENDS, st.data())
def test_the_same_look_again_counts_nothing(reasons: list[str], data: st.DataObject) -> None:
    looks = life(reasons, [data.draw(SHOWN) for _ in reasons])
    assert counted([look for look in looks for _ in range(2)]) == counted(looks)


def test_two_kills_within_one_second_are_two() -> None:
    killed = {"reason": "OOMKilled", "finishedAt": "2024-05-05T10:00:00Z"}
    looks = [pod({"running": {}}, None, 0), pod({"running": {}}, killed, 1), pod({"running": {}}, killed, 2)]
    assert counted(looks) == 2


@given(st.lists(st.sampled_from(["kill", "hidden kill", "status", "node", "node restarts"]), max_size=60))
def test_a_kill_is_counted_once_whether_statuses_or_the_node_show_it_first(events: list[str]) -> None:
    """The node counts every kill until it restarts; statuses show the kills that are not hidden, sooner or later."""
    count, counted, kills, shown, pending, counter, lost = Count(), 0, 0, 0, 0, 0, 0
    for event in events:
        if event.endswith("kill"):
            kills, counter = kills + 1, counter + 1
            pending += event == "kill"
        elif event == "status":
            counted += count.count_by_statuses(pending)
            shown, pending = shown + pending, 0
        elif event == "node":
            counted += count.count_by_node(counter, from_zero=True)
            if not lost:
                assert counted == kills
        else:
            counter, lost = 0, lost + 1
        assert shown <= counted <= kills


@given(st.integers(0, 20), st.integers(0, 5), st.integers(0, 5))
def test_kills_from_before_the_start_are_not_counted_from_the_node(before: int, shown: int, later: int) -> None:
    count = Count()
    count.count_by_statuses(shown)
    assert count.count_by_node(before + shown, from_zero=False) == 0
    assert count.count_by_node(before + shown + later, from_zero=False) == later
    assert count.count_by_statuses(later) == 0
