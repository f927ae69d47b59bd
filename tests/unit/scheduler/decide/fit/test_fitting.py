"""Which nodes fit a pod: updated row by row, with the same result as a check of all nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.scheduling import node, pod

from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.fitting import Fitting
from podfit.scheduler.decide.fit.reasons import Code
from podfit.scheduler.decide.fit.rules import Rules
from podfit.scheduler.decide.fit.selection import Selection
from podfit.scheduler.decide.pod.pods import resident, shape_of

NODES = ("a", "b", "c")
TAINT = {"key": "k", "value": "", "effect": "NoSchedule"}


def fitting(snapshot: Snapshot, **spec: object) -> Fitting:
    made = Fitting(shape_of(pod("new", **spec), None), snapshot, Selection(snapshot), Rules(deterministic=True))  # type: ignore[arg-type]
    made.sync()
    return made


def code_on(snapshot: Snapshot, name: str, **spec: object) -> Code:
    return Code(int(fitting(snapshot, **spec).codes()[snapshot.rows[name]]))


def test_each_reason_not_to_take_a_pod_has_its_code() -> None:
    snapshot = Snapshot()
    snapshot.put_node(node("a", cpu="4"))
    snapshot.put_node(node("b", taints=[TAINT]))
    snapshot.put_node(node("c", unschedulable=True))
    assert code_on(snapshot, "a") == Code.FITS
    assert code_on(snapshot, "a", cpu="5") == Code.RESOURCES
    assert code_on(snapshot, "a", nodeSelector={"disk": "fast"}) == Code.SELECTOR
    assert code_on(snapshot, "a", nodeName="b") == Code.NODE_NAME
    assert code_on(snapshot, "b") == Code.TAINT
    assert code_on(snapshot, "b", tolerations=[{"operator": "Exists"}]) == Code.FITS
    assert code_on(snapshot, "c") == Code.UNSCHEDULABLE


def test_a_node_that_is_short_counts_by_resource() -> None:
    snapshot = Snapshot()
    snapshot.put_node(node("a", cpu="2"))
    snapshot.put_pod(resident(pod("p", cpu="1500m", on="a")))
    found = fitting(snapshot)
    assert dict(found.reasons(found.codes())) == {"Insufficient cpu": 1}


moves = st.tuples(st.integers(0, 6), st.sampled_from(NODES), st.sampled_from(["500m", "1", "3"]))
changes = st.tuples(st.sampled_from(NODES), st.sampled_from(["1", "4", "8"]), st.booleans())


@given(st.lists(st.one_of(moves, changes), max_size=25), st.integers(1, 6))
def test_a_fitting_that_follows_changes_says_what_a_new_one_says(
    events: list[tuple[int, str, str] | tuple[str, str, bool]], often: int
) -> None:
    snapshot = Snapshot()
    for name in NODES:
        snapshot.put_node(node(name))
    followed, there = fitting(snapshot), set[int]()
    for at, (first, second, third) in enumerate(events):
        if isinstance(first, str):
            snapshot.put_node(node(first, cpu=str(second), unschedulable=third))
        elif first in there:
            there.remove(first)
            snapshot.remove_pod(("ns", f"p{first}"))
        else:
            there.add(first)
            snapshot.put_pod(resident(pod(f"p{first}", cpu=str(third), on=str(second))))
        if at % often == 0:
            followed.sync()
    followed.sync()
    fresh = fitting(snapshot)
    assert followed.codes().tolist() == fresh.codes().tolist()
    assert followed.ranked().tolist() == fresh.ranked().tolist()
