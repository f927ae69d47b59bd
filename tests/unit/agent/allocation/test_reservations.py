"""The sum of the resources that the pods of a node hold."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

from podfit.agent.allocation.reservations import Reservations


def counted(lab: Lab, *uids: str) -> Reservations:
    made = Reservations(lab.records)
    for uid in uids:
        made.changed(uid)
    return made


async def test_others_are_all_pods_but_this_one(lab: Lab) -> None:
    lab.add(pod("a", cpu="1"))
    lab.add(pod("b", cpu="2"))
    made = counted(lab, "a", "b")
    assert (made.by_others("a")[0]["cpu"].milli, made.by_others("a")[1]) == (2000, 1)
    assert (made.by_others("nobody")[0]["cpu"].milli, made.by_others("nobody")[1]) == (3000, 2)


async def test_a_pod_that_changed_is_counted_with_what_it_holds_now(lab: Lab) -> None:
    record = lab.add(pod("a", cpu="1"))
    made = counted(lab, "a")
    assert made.by_others("")[0]["cpu"].milli == 1000
    lab.grant(record, "3")
    made.changed("a")
    assert made.by_others("")[0]["cpu"].milli == 3000


async def test_pods_that_hold_nothing_do_not_count(lab: Lab) -> None:
    record = lab.add(pod("a", cpu="1"))
    made = counted(lab, "a")
    record.finished = True
    made.changed("a")
    assert made.by_others("")[1] == 0
    del lab.records["a"]
    made.changed("a")
    assert made.by_others("")[1] == 0
