"""A cheap check guesses whether a JSON text contains a key twice; it may be wrong in one direction only."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.encoded import encoded
from podfit.api.schema.decoding.decode import duplicate_fields
from podfit.api.text.gojson import may_hold_duplicates, parse_exact

words = st.text(alphabet='ab\\":{}, ', max_size=6)


def objects(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.dictionaries(words, inner, max_size=4)


values = st.recursive(words | st.integers(), lambda inner: st.lists(inner, max_size=3) | objects(inner), max_leaves=8)


@given(objects(values), words, values, values)
def test_a_duplicate_key_is_always_detected(rest: object, key: str, one: object, other: object) -> None:
    inner = json.dumps(rest, separators=(",", ":"))
    name = json.dumps(key)
    first, second = (json.dumps(value, separators=(",", ":")) for value in (one, other))
    raw = f'{{"rest":{inner},"twice":{{{name}:{first},{name}:{second}}}}}'.encode()
    assert may_hold_duplicates(raw, json.loads(raw))


@given(objects(values))
def test_our_own_encoding_has_no_duplicate_keys(value: object) -> None:
    raw = encoded(value)
    assert json.loads(raw) == value
    assert duplicate_fields(parse_exact(bytes(raw))) == []
    assert not may_hold_duplicates(raw, value)


def test_a_message_that_quotes_json_is_not_suspected() -> None:
    event = {"message": 'Pod resize started: {"containers":[{"name":"c"}]}', "reason": "ResizeStarted"}
    raw = json.dumps(event, separators=(",", ":")).encode()
    assert not may_hold_duplicates(raw, event)
