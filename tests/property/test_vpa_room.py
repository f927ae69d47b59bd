"""The account of free capacity: whatever the scheduler chooses, every successor of an evicted pod fits a node."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.vpa.model.room import DIMENSIONS, Claim, NodeRoom, RoomLedger

Amounts = dict[str, int]


def amounts(cpu: int, memory: int) -> Amounts:
    return {"cpu": cpu, "memory": memory, "pods": 1}


sizes = st.builds(amounts, st.integers(0, 12), st.integers(0, 12))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[dict[str, NodeRoom], list[tuple[str, Amounts]]]:
    """Nodes with the pods that run on them, which fit each node."""
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


def leave(node: NodeRoom, held: Amounts) -> None:
    for resource in DIMENSIONS:
        node.leaving[resource] += held[resource]


def gone(nodes: dict[str, NodeRoom]) -> None:
    """The evicted pods have terminated."""
    for node in nodes.values():
        for resource in DIMENSIONS:
            node.used[resource] -= node.leaving[resource]
            node.leaving[resource] = 0


def grow(ledger: RoomLedger, node: NodeRoom, cpu: int, memory: int) -> None:
    """A pod on the node is resized in place, as far as permitted."""
    wanted = {"cpu": cpu, "memory": memory}
    safe = ledger.growth_left(node.name, wanted)
    for resource, most in safe.items():
        assert 0 <= most <= wanted[resource]
        node.used[resource] += max(0, min(most, node.left(resource) or 0))


def schedule(data: st.DataObject, nodes: dict[str, NodeRoom], promised: list[Claim], others: list[Claim]) -> None:
    """The scheduler places all waiting pods in any order and on any nodes that fit."""
    for claim in data.draw(st.permutations([*promised, *others])):
        fitting = [node for node in nodes.values() if node.holds(claim.needed) and node.takes(claim.spec)]
        assert fitting or any(claim is other for other in others), "the successor of an evicted pod has no place"
        if fitting:
            chosen = data.draw(st.sampled_from(fitting))
            for resource in DIMENSIONS:
                chosen.used[resource] += claim.needed[resource]
    for node in nodes.values():
        assert all(node.used[resource] <= node.allocatable[resource] for resource in DIMENSIONS)


@settings(max_examples=600)
@given(st.data())
def test_every_successor_finds_a_node_whatever_the_scheduler_chooses(data: st.DataObject) -> None:
    nodes, pods = data.draw(clusters())
    ledger = RoomLedger(nodes)
    pending = data.draw(st.lists(st.tuples(specs, sizes), max_size=3))
    ledger.begin({("pending", number): Claim(*item) for number, item in enumerate(pending)})
    promised = []
    for number, (home, held) in enumerate(pods):
        claim = Claim(data.draw(specs), data.draw(sizes), home)
        if ledger.has_place(claim, held):
            leave(nodes[home], held)
            ledger.guarantee(number, claim)
            promised.append(claim)
    gone(nodes)
    schedule(data, nodes, promised, [Claim(*item) for item in pending])


@given(clusters(), st.lists(st.tuples(specs, sizes), max_size=6))
def test_reservations_never_exceed_the_free_capacity_of_a_node(
    cluster: tuple[dict[str, NodeRoom], Any], pending: list[tuple[dict[str, Any], Amounts]]
) -> None:
    nodes, _ = cluster
    ledger = RoomLedger(nodes)
    ledger.begin({number: Claim(*item) for number, item in enumerate(pending)})
    for node in nodes.values():
        for resource in DIMENSIONS:
            assert node.used[resource] + node.reserved[resource] <= node.allocatable[resource]


@given(clusters(), st.lists(st.tuples(specs, sizes), max_size=6))
def test_claims_that_are_removed_leave_nothing_behind(
    cluster: tuple[dict[str, NodeRoom], Any], pending: list[tuple[dict[str, Any], Amounts]]
) -> None:
    nodes, _ = cluster
    ledger = RoomLedger(nodes)
    ledger.begin({})
    for number, item in enumerate(pending):
        ledger.add(number, Claim(*item))
    for number in range(len(pending)):
        ledger.remove(number)
    nothing = dict.fromkeys(DIMENSIONS, 0)
    assert ledger.claimed == nothing and not ledger.stuck
    assert all(node.reserved == nothing for node in nodes.values())


growths = st.tuples(st.integers(0, 12), st.integers(0, 12))


@settings(max_examples=600)
@given(st.data())
def test_resizes_in_place_leave_successors_their_places_whatever_the_scheduler_chooses(data: st.DataObject) -> None:
    nodes, pods = data.draw(clusters())
    ledger = RoomLedger(nodes)
    pending = data.draw(st.lists(st.tuples(specs, sizes), max_size=3))
    ledger.begin({("pending", number): Claim(*item) for number, item in enumerate(pending)})
    promised = []
    for number, (home, held) in enumerate(pods):
        if data.draw(st.booleans()):
            claim = Claim(data.draw(specs), data.draw(sizes), home)
            if ledger.has_place(claim, held):
                leave(nodes[home], held)
                ledger.guarantee(number, claim)
                promised.append(claim)
        else:
            grow(ledger, nodes[home], *data.draw(growths))
    gone(nodes)
    schedule(data, nodes, promised, [Claim(*item) for item in pending])


def test_a_pod_that_may_go_anywhere_is_not_evicted_if_it_could_take_the_only_place_reserved_for_another() -> None:
    def node(name: str, zone: str, cpu: int) -> NodeRoom:
        return NodeRoom({"metadata": {"name": name, "labels": {"zone": zone}}}, {"cpu": cpu})

    ledger = RoomLedger({"a": node("a", "a", 500), "b": node("b", "b", 4000)})
    ledger.begin({})
    bound = Claim({"nodeSelector": {"zone": "a"}}, amounts(500, 0))
    assert ledger.has_place(bound)
    ledger.guarantee("bound", bound)
    assert not ledger.has_place(Claim({}, amounts(100, 0), "b"), amounts(50, 0))
    assert ledger.has_place(Claim({"nodeSelector": {"zone": "b"}}, amounts(100, 0), "b"), amounts(50, 0))


def test_a_resize_in_place_leaves_room_for_a_successor_whose_own_node_another_pod_may_take() -> None:
    home = NodeRoom({"metadata": {"name": "home"}}, {"cpu": 1000})
    other = NodeRoom({"metadata": {"name": "other"}}, {"cpu": 2000})
    home.used["cpu"] = 900
    ledger = RoomLedger({"home": home, "other": other})
    ledger.begin({"pending": Claim({}, amounts(300, 0))})
    successor, held = Claim({}, amounts(500, 0), "home"), amounts(400, 0)
    assert ledger.has_place(successor, held)
    leave(home, held)
    ledger.guarantee("successor", successor)
    # The pending pod may go to `home`; then the successor needs 500 of the 2000 on this node, besides 300 more.
    assert other.left("cpu") == 1700
    assert ledger.growth_left("other", {"cpu": 1700}) == {"cpu": 1200, "memory": 0}
    assert ledger.growth_left("other", {"cpu": 1100}) == {"cpu": 1100, "memory": 0}
