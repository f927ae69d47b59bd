"""Owner references that a client states twice."""

from __future__ import annotations

from podfit.apiserver.strategy.meta import unique_owners

OWNER = {"apiVersion": "v1", "kind": "X", "name": "n", "uid": "u"}


def test_a_repeated_owner_is_stored_once_and_warned_of() -> None:
    metadata = {"ownerReferences": [OWNER, dict(OWNER), {**OWNER, "name": "m"}]}
    [warning] = unique_owners(metadata)
    assert warning.startswith(".metadata.ownerReferences contains duplicate entries; API server dedups")
    assert warning.endswith("duplicate UID(s) observed: u")
    assert metadata["ownerReferences"] == [OWNER, {**OWNER, "name": "m"}]
    assert unique_owners(metadata) == []


def test_duplicates_added_by_admission_are_reported() -> None:
    [warning] = unique_owners({"ownerReferences": [OWNER, OWNER]}, admitted=True)
    assert "duplicate entries after mutating admission happens; " in warning
