"""An index finds the objects that its function names, however objects change and share parts with their
previous state.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.registry.kinds import POD
from podfit.client import Cache, Client
from podfit.client.transport import HttpTransport
from podfit.controllers.context import POD_INDEXES

OWNERS = st.lists(
    st.fixed_dictionaries({"uid": st.sampled_from("uv"), "controller": st.sampled_from((True, False))}), max_size=2
)
"""A change: of which object, whether it is deleted, whether the rest is identical or merely equal, and the
difference.
"""
CHANGES = st.tuples(
    st.sampled_from(("a", "b", "c")),
    st.sampled_from((False, False, False, True)),
    st.booleans(),
    st.dictionaries(
        st.sampled_from((("metadata", "ownerReferences"), ("spec", "nodeName"), ("spec", "size"))),
        st.one_of(st.none(), st.sampled_from(("n1", "n2"))),
        max_size=2,
    ),
    OWNERS,
)


@given(st.lists(CHANGES, max_size=30))
def test_an_index_finds_what_its_function_names(changes: list[Any]) -> None:
    cache = Cache(Client(HttpTransport("https://nobody")), POD, indexes=POD_INDEXES)
    for name, goes, shared, fields, owners in changes:
        known = cache.get("ns", name) or {"metadata": {"namespace": "ns", "name": name}}
        pod = dict(known) if shared else copy.deepcopy(known)
        pod["metadata"] = {**pod["metadata"], "resourceVersion": "1"}
        for (part, field), value in fields.items():
            pod[part] = {**pod.get(part, {}), field: owners if field == "ownerReferences" else value}
        cache._take("DELETED" if goes else "MODIFIED", pod)
        for index, how in POD_INDEXES.items():
            for value in ("", "ns", "n1", "n2", "u", "v"):
                expected = [item for item in cache if value in how.values(item)]
                assert sorted(map(id, cache.by(index, value))) == sorted(map(id, expected))
