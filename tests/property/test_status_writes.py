"""A rejected field of a status does not prevent other fields from being written."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.status.partial_writes import REJECTED, write_status
from podfit.api.status import ApiError

Status = dict[str, Any]
LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
STATES = st.fixed_dictionaries(
    {
        **{name: st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)) for name in (*LISTS, "conditions")},
        "resources": st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)),
        "phase": st.sampled_from(["Pending", "Running"]),
    }
)


def written(state: Status) -> Status:
    """A state as the fields of a status."""
    made: Status = {name: [{"name": key, "v": value} for key, value in state[name].items()] for name in LISTS}
    made["conditions"] = [{"type": key, "v": value} for key, value in state["conditions"].items()]
    return {**made, "resources": state["resources"], "phase": state["phase"]}


def read(status: Status) -> dict[tuple[str, str], Any]:
    """Every element of a status, by field and key."""
    found: dict[tuple[str, str], Any] = {("phase", ""): status["phase"]}
    for name in (*LISTS, "conditions"):
        found |= {(name, entry.get("name") or entry.get("type")): entry["v"] for entry in status[name]}
    return found | {("resources", key): value for key, value in status["resources"].items()}


class Server:
    """Merges patches as the API server does, and rejects each patch that changes a frozen element."""

    def __init__(self, status: Status, frozen: set[tuple[str, str]], code: int = 422) -> None:
        self.status, self.frozen, self.code, self.asked = status, frozen, code, 0

    async def patch(self, fields: Status) -> Status:
        self.asked += 1
        after = copy.deepcopy(self.status)
        for name, value in fields.items():
            if name == "conditions":
                merged = {condition["type"]: condition for condition in [*after[name], *value]}
                after[name] = list(merged.values())
            elif name == "resources":
                after[name] |= value
            else:
                after[name] = value
        before, now = read(self.status), read(after)
        if any(before.get(element) != now.get(element) for element in self.frozen):
            raise ApiError(self.code, "Invalid", "may not change")
        self.status = after
        return after


@given(st.data(), st.sampled_from(sorted(REJECTED)))
def test_every_element_is_written_but_those_that_are_rejected(data: st.DataObject, code: int) -> None:
    old, new = data.draw(STATES), data.draw(STATES)
    for name in (*LISTS, "conditions", "resources"):
        new[name] = {**old[name], **new[name]}
    before, wanted = written(old), written(new)
    frozen = data.draw(st.sets(st.sampled_from(sorted(read(wanted))), max_size=3))
    server = Server(copy.deepcopy(before), frozen, code)
    outcome = asyncio.run(write_status(server.patch, before, wanted))
    stored, had, asked_for = read(server.status), read(before), read(wanted)
    for element, value in asked_for.items():
        assert stored.get(element) == (had.get(element) if element in frozen else value), element
    changed = {element for element in frozen if had.get(element) != asked_for[element]}
    assert {name.partition(".")[0] for name in outcome.rejections} == {name for name, _ in changed}


@given(STATES)
def test_a_status_that_is_accepted_costs_one_request(state: Status) -> None:
    server = Server(written(state), set())
    outcome = asyncio.run(write_status(server.patch, server.status, written(state)))
    assert (server.asked, outcome.rejections) == (1, {})


@pytest.mark.parametrize("code", [401, 404, 409, 429, 500, 503])
def test_what_says_nothing_about_the_fields_is_raised(code: int) -> None:
    empty = written({**{name: {} for name in (*LISTS, "conditions", "resources")}, "phase": "Pending"})
    server = Server(empty, {("phase", "")}, code)
    with pytest.raises(ApiError) as raised:
        asyncio.run(write_status(server.patch, empty, {**empty, "phase": "Running"}))
    assert (raised.value.code, server.asked) == (code, 1)
