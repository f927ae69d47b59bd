"""Every field of a built-in kind survives conversion from JSON to protobuf and back."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podfit.api.protobuf import to_json
from podfit.api.protobuf.table import UNIONS, message_types, root
from podfit.api.protobuf.writing import from_json
from podfit.api.registry.kinds import BUILT_IN

_KINDS = sorted({(kind.api_version, kind.kind) for kind in BUILT_IN})
_WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_JSON: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | _WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_WORDS, inner, max_size=2),
    max_leaves=4,
)
_WHEN = st.datetimes(min_value=datetime(1000, 1, 1))
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": _WORDS,
    "int": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bytes": st.binary(max_size=5).map(lambda data: base64.b64encode(data).decode()),
    "quantity": st.sampled_from(["0", "1", "100m", "1Gi", "-5k"]),
    "intstr": st.integers(-(2**31), 2**31 - 1) | _WORDS,
    "time": _WHEN.map(lambda when: when.strftime("%Y-%m-%dT%H:%M:%SZ")),
    "microtime": _WHEN.map(lambda when: when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")),
    "raw": _JSON,
}


@cache
def _values(kind: str, depth: int) -> st.SearchStrategy[Any]:
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind.startswith("[]"):
        return st.lists(_values(kind[2:], depth), min_size=1, max_size=2)
    if kind.startswith("{}"):
        return st.dictionaries(_WORDS, _values(kind[2:], depth), min_size=1, max_size=2)
    if kind.endswith(".ExtraValue"):
        return st.lists(_WORDS, max_size=2)
    if kind in UNIONS:
        other = next(what for name, what in message_types()[kind].values() if name == UNIONS[kind][0])
        return _messages("apiextensions.JSONSchemaProps", depth) | _values(other, depth)
    return _messages(kind, depth)


@cache
def _messages(name: str, depth: int) -> st.SearchStrategy[Any]:
    """Objects with some of the fields of a type."""
    return st.composite(_drawn)(name, depth)


def _drawn(draw: st.DrawFn, name: str, depth: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    fields = sorted(message_types()[name].values())
    if not fields or depth > 5:
        return made
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4 if depth else 6, unique=True))
    for json_name, kind in chosen:
        if kind.startswith("^"):
            made |= draw(_messages(kind[1:], depth + 1))
        else:
            made[json_name] = draw(_values(kind, depth + 1))
    return made


@pytest.mark.parametrize(("api_version", "kind"), _KINDS)
def test_an_object_is_the_same_after_protobuf(api_version: str, kind: str) -> None:
    name = root(api_version, kind)
    assert name, "protobuf has every built-in kind"

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_messages(name, 0))
    def holds(fields: dict[str, Any]) -> None:
        whole = {"apiVersion": api_version, "kind": kind, **fields}
        assert json.loads(to_json(from_json(json.dumps(whole).encode()))) == whole

    holds()
