"""The patch that changes one status into another."""

from __future__ import annotations

from podfit.agent.decide.pod import status_changes


def test_a_patch_holds_only_what_changed() -> None:
    before = {
        "phase": "Running",
        "conditions": [{"type": "A", "status": "True", "reason": "x"}, {"type": "B", "status": "True"}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
    }
    after = {
        "phase": "Running",
        "conditions": [{"type": "A", "status": "True"}],
        "resources": {"limits": {"cpu": "2"}},
    }
    assert status_changes.patch(before, after, "u") == {
        "metadata": {"uid": "u"},
        "status": {
            "$setElementOrder/conditions": [{"type": "A"}],
            "conditions": [{"type": "A", "status": "True", "reason": None}, {"$patch": "delete", "type": "B"}],
            "resources": {"limits": {"cpu": "2"}, "requests": None},
        },
    }
    assert status_changes.patch(before, before, "u") is None


def test_the_order_of_conditions_is_stated_only_where_it_changes() -> None:
    before = {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}
    after = {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "False"}]}
    assert status_changes.patch(before, after, "u") == {
        "metadata": {"uid": "u"},
        "status": {"conditions": [{"type": "B", "status": "False"}]},
    }
    turned = status_changes.patch(before, {"conditions": before["conditions"][::-1]}, "u")
    assert turned is not None and turned["status"]["$setElementOrder/conditions"] == [{"type": "B"}, {"type": "A"}]
