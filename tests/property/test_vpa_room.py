"""The ledger of room: whatever the scheduler chooses, every pod whose eviction was allowed finds a node."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.vpa.model.room import DIMENSIONS, Claim, Ledger, NodeRoom

Amounts = dict[str, int]


def amounts(cpu: int, memory: int) -> Amounts:
    return {"cpu": cpu, "memory": memory, "pods": 1}


sizes = st.builds(amounts, st.integers(0, 12), st.integers(0, 12))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[str, NodeRoom], list[tuple[str, Amounts]]]:
    """Nodes, and the pods that run there, each within the room of its node."""
    nodes: dict[str, NodeRoom] = {}
    pods = []
    for number in range(draw(st.integers(1, 4))):
        name = f"n{number}"
        labels = {"zone": draw(st.sampled_from(["a", "b"]))}
        most = {"cpu": draw(st.integers(0, 20)), "memory": draw(st.integers(0, 20)), "pods": draw(st.integers(0, 5))}
        book = NodeRoom({"metadata": {"name": name, "labels": labels}}, most)
        for size in draw(st.lists(sizes, max_size=4)):
            if book.holds(size):
                for resource in DIMENSIONS:
                    book.used[resource] += size[resource]
                pods.append((name, size))
        nodes[name] = book
    return nodes, pods


specs: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {}, {"nodeSelector": {"zone": "a"}}])


@settings(max_examples=600)
@given(st.data())
def test_every_successor_finds_a_node_whatever_the_scheduler_chooses(data: st.DataObject) -> None:
    nodes, pods = data.draw(clusters())
    ledger = Ledger(nodes)
    pending = data.draw(st.lists(st.tuples(specs, sizes), max_size=3))
    ledger.begin({("pending", number): Claim(*one) for number, one in enumerate(pending)})
    promised = []
    for number, (home, held) in enumerate(pods):
        claim = Claim(data.draw(specs), data.draw(sizes), home)
        if ledger.has_place(claim, held):
            for resource in DIMENSIONS:
                nodes[home].leaving[resource] += held[resource]
            ledger.promise(number, claim)
            promised.append(claim)
    # The evicted pods are gone; the scheduler places all that wait in an order and on nodes of its own.
    for node in nodes.values():
        for resource in DIMENSIONS:
            node.used[resource] -= node.leaving[resource]
            node.leaving[resource] = 0
    others = [Claim(*one) for one in pending]
    waiting = data.draw(st.permutations([*promised, *others]))
    for claim in waiting:
        fitting = [node for node in nodes.values() if node.holds(claim.needed) and node.takes(claim.spec)]
        assert fitting or any(claim is other for other in others), "the successor of an evicted pod has no place"
        if fitting:
            chosen = data.draw(st.sampled_from(fitting))
            for resource in DIMENSIONS:
                chosen.used[resource] += claim.needed[resource]
    for node in nodes.values():
        assert all(node.used[resource] <= node.allocatable[resource] for resource in DIMENSIONS)


@given(clusters(), st.lists(st.tuples(specs, sizes), max_size=6))
def test_what_is_reserved_never_exceeds_the_free_room_of_a_node(
    cluster: tuple[dict[str, NodeRoom], Any], pending: list[tuple[dict[str, Any], Amounts]]
) -> None:
    nodes, _ = cluster
    ledger = Ledger(nodes)
    ledger.begin({number: Claim(*one) for number, one in enumerate(pending)})
    for node in nodes.values():
        for resource in DIMENSIONS:
            assert node.used[resource] + node.reserved[resource] <= node.allocatable[resource]


@given(clusters(), st.lists(st.tuples(specs, sizes), max_size=6))
def test_claims_that_are_removed_leave_nothing_behind(
    cluster: tuple[dict[str, NodeRoom], Any], pending: list[tuple[dict[str, Any], Amounts]]
) -> None:
    nodes, _ = cluster
    ledger = Ledger(nodes)
    ledger.begin({})
    for number, one in enumerate(pending):
        ledger.add(number, Claim(*one))
    for number in range(len(pending)):
        ledger.remove(number)
    nothing = dict.fromkeys(DIMENSIONS, 0)
    assert ledger.claimed == nothing and not ledger.stuck
    assert all(node.reserved == nothing for node in nodes.values())
