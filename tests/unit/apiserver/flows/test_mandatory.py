"""Default schemas and levels follow the server unless an administrator has opted out."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.apiserver.strategy.flows.mandatory import AUTO_UPDATE, defaults, is_unwanted, revised


def default(kind: str, name: str) -> Object:
    return next(entry for entry in defaults() if (entry["kind"], entry["metadata"]["name"]) == (kind, name))


def stored(wanted: Object, note: str | None = "true", generation: int = 2, **spec: Any) -> Object:
    notes = {} if note is None else {AUTO_UPDATE: note}
    meta = {"name": wanted["metadata"]["name"], "annotations": notes, "generation": generation}
    return {**wanted, "metadata": meta, "spec": {**wanted["spec"], **spec}}


NODES = default("FlowSchema", "system-nodes")


@pytest.mark.parametrize(
    ("note", "generation", "follows"),
    [("true", 2, True), ("1", 2, True), ("false", 2, False), (None, 1, True), (None, 2, False), ("maybe", 2, False)],
)
def test_a_changed_spec_comes_back_where_the_object_follows_the_server(
    note: str | None, generation: int, follows: bool
) -> None:
    found = stored(NODES, note, generation, matchingPrecedence=7)
    new = revised(found, NODES) or found
    assert (new["spec"] == NODES["spec"]) is follows
    assert new["metadata"]["generation"] == generation + follows


def test_the_annotation_states_whether_the_object_follows() -> None:
    for generation, shown in ((1, "true"), (2, "false")):
        new = revised(stored(NODES, None, generation), NODES)
        assert new is not None and new["metadata"]["annotations"][AUTO_UPDATE] == shown


def test_an_object_that_is_as_it_should_be_is_not_written() -> None:
    assert revised(stored(NODES), NODES) is None
    assert revised(stored(NODES, "false", matchingPrecedence=7), NODES) is None


def test_mandatory_objects_always_follow() -> None:
    wanted = default("FlowSchema", "catch-all")
    new = revised(stored(wanted, "false", matchingPrecedence=7), wanted)
    assert new is not None and new["spec"] == wanted["spec"] and new["metadata"]["annotations"][AUTO_UPDATE] == "true"


def test_administrators_choose_what_the_exempt_level_lends() -> None:
    wanted = default("PriorityLevelConfiguration", "exempt")
    assert revised(stored(wanted, exempt={"nominalConcurrencyShares": 3, "lendablePercent": 50}), wanted) is None


def test_only_objects_that_follow_and_are_unknown_are_of_another_version() -> None:
    old = {**NODES, "metadata": {"name": "old", "annotations": {AUTO_UPDATE: "true"}}}
    assert is_unwanted(old) and not is_unwanted(NODES)
    assert not is_unwanted({**old, "metadata": {"name": "old"}})
    assert not is_unwanted({**old, "metadata": {"name": "old", "annotations": {AUTO_UPDATE: "false"}}})
