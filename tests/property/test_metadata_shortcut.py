"""Metadata that an update does not change is not validated again: full validation would find no error in it either."""

from __future__ import annotations

import copy
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.apiserver.strategy import meta, strategy_for

PODS = strategy_for(POD)

words = st.sampled_from(["a", "B", "x.y/z", "-", "", "kubernetes", "orphan", "foregroundDeletion"])
texts = st.dictionaries(words, words, max_size=2)
owners = st.lists(
    st.fixed_dictionaries({"apiVersion": st.just("v1"), "kind": words, "name": words, "uid": words}), max_size=2
)
fields: Object = {
    "generateName": words,
    "labels": texts,
    "annotations": texts,
    "finalizers": st.lists(words, max_size=2),
    "ownerReferences": owners,
    "deletionTimestamp": st.just("2024-01-01T00:00:00Z"),
    "deletionGracePeriodSeconds": st.integers(0, 1),
    "generation": st.integers(1, 3),
}
metadata = st.fixed_dictionaries(
    {"name": st.just("p"), "namespace": st.just("d"), "uid": st.just("u"), "resourceVersion": st.just("1")},
    optional=fields,
)
changes = st.fixed_dictionaries({}, optional={**fields, "name": words, "resourceVersion": st.just("")})


@given(metadata, changes, st.sampled_from(["", "status", "resize"]))
def test_untouched_metadata_is_found_valid_the_long_way_too(stored: Object, changed: Object, endpoint: str) -> None:
    old: Object = {"metadata": stored}
    if meta.validate_object(stored, True, PODS.validate_name):
        return
    new = copy.deepcopy(old)
    new["metadata"].update(changed)
    meta.carry_over(new, old)
    short = PODS.validate_update_meta(new, old, endpoint)
    with mock.patch.object(meta, "untouched", lambda new, old: False):
        long = PODS.validate_update_meta(new, old, endpoint)
    assert short == long
