"""Owners of objects and of fields: repeated references, and the fields owned by a write through a subresource."""

from __future__ import annotations

from podfit.api.registry.kinds import POD
from podfit.apiserver.strategy.meta import unique_owners
from podfit.apiserver.writing.managed import reset_by_apply, reset_fields

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


def test_an_apply_to_resize_owns_all_it_states_and_other_writes_only_sizes() -> None:
    fields = {"f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}}}}}
    assert reset_by_apply(POD, "resize").filtered(fields) == fields
    sizes = {"f:spec": {"f:containers": {'k:{"name":"c"}': {"f:resources": {}}}}}
    assert reset_fields(POD, "resize").filtered(fields) == sizes
    assert reset_by_apply(POD, "status") == reset_fields(POD, "status")
