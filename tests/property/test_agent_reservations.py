"""The sum of the pods' resources is the same whether it is updated or recomputed."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.agent.allocation.reservations import Reservations
from podfit.agent.pods.record import PodRecord, Termination
from podfit.agent.pods.story import Story
from podfit.api.quantity import ZERO, Quantity
from podfit.kit.clock import FakeClock

NAMES = ("cpu", "memory", "example.com/gpu")
UIDS = st.sampled_from("abcd")
HELD = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5).map(Quantity.of_units))
CHANGES = st.one_of(
    st.tuples(st.just("comes"), UIDS, HELD),
    st.tuples(st.just("holds"), UIDS, HELD),
    st.tuples(st.sampled_from(["ends", "is gone", "is rejected", "leaves", "is asked"]), UIDS, st.none()),
)


def change(records: dict[str, PodRecord], what: str, uid: str, held: Any) -> None:
    if what == "comes":
        record = records[uid] = PodRecord(uid, {"metadata": {}, "spec": {}}, Story(FakeClock()))
        record.admitted, record.used = True, held
    elif what == "leaves":
        records.pop(uid, None)
    elif uid in records:
        match what:
            case "holds":
                records[uid].used = held
            case "ends":
                records[uid].finished = True
            case "is gone":
                records[uid].termination = Termination(0.0, gone=True)
            case "is rejected":
                records[uid].rejected = ("reason", "message")


@settings(max_examples=300)
@given(st.lists(CHANGES, max_size=20))
def test_room_held_by_others_is_their_sum(changes: list[tuple[str, str, Any]]) -> None:
    records: dict[str, PodRecord] = {}
    reservations = Reservations(records)
    for what, uid, held in changes:
        change(records, what, uid, held)
        reservations.changed(uid)
        if what != "is asked":
            continue
        others = [record for record in records.values() if record.admitted and record.holds and record.uid != uid]
        used, pods = reservations.by_others(uid)
        assert pods == len(others)
        for name in NAMES:
            assert used.get(name, ZERO).nanos == sum(item.used.get(name, ZERO).nanos for item in others)
