"""A list assembled item by item equals the list encoded as a whole, in every encoding."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.apiserver.representation.encodings import COMPACT, INDENTED, Encoding, Yaml

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=12)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.lists(st.dictionaries(TEXT, VALUE, max_size=4), max_size=5)


def put_together(encoding: Encoding, items: list[Any], name: str) -> bytes:
    head = b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"%b":[' % name.encode()
    parts = encoding.between.join(encoding.item(msgspec.json.encode(item)) for item in items)
    first, last = encoding.frame(head, b"]}", not items)
    return first + parts + last


def whole(items: list[Any], name: str) -> dict[str, Any]:
    return {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, name: items}


@given(ITEMS, st.sampled_from(("items", "rows")))
def test_compact(items: list[Any], name: str) -> None:
    assert put_together(COMPACT, items, name) == msgspec.json.encode(whole(items, name))


@given(ITEMS, st.sampled_from(("items", "rows")))
def test_indented(items: list[Any], name: str) -> None:
    expected = msgspec.json.format(msgspec.json.encode(whole(items, name)), indent=2)
    assert put_together(INDENTED, items, name) == expected
    assert json.loads(expected)[name] == items


@settings(deadline=None)
@given(ITEMS, st.sampled_from(("items", "rows")))
def test_yaml(items: list[Any], name: str) -> None:
    assert yaml.safe_load(put_together(Yaml(), items, name)) == whole(items, name)
