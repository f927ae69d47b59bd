"""Deep, long or self-expanding bodies are rejected before they cost much, with Kubernetes' messages."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC, json_patch, patch_object
from podfit.api.patches.editing import ChunkedList
from podfit.api.quantity import Quantity, QuantityError
from podfit.api.schema import type_named
from podfit.api.schema.decoding.yaml_nodes import YamlError
from podfit.api.schema.decoding.yamls import parse_yaml
from podfit.api.status import ApiError
from podfit.api.text.depth import MAX_DEPTH, allow_depth, deeper_than
from podfit.api.text.gojson import GoSyntaxError, parse

allow_depth()
DEEP = MAX_DEPTH + 1


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "{a: [", "? ", "[{a: "])
def test_yaml_of_any_depth_is_refused_and_never_crashes_the_process(opening: str) -> None:
    body = opening.encode() * 50_000
    script = (
        "import sys; from podfit.api.schema.decoding.yamls import parse_yaml\n"
        "try: parse_yaml(sys.stdin.buffer.read())\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=body, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"yaml: exceeded max depth of 10000\n")


@pytest.mark.parametrize("closing", ["]", ""])
def test_json_is_refused_one_level_beyond_the_limit(closing: str) -> None:
    with pytest.raises(GoSyntaxError, match="exceeded max depth"):
        parse(b"[" * DEEP + closing.encode() * DEEP)
    assert deeper_than(parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH), MAX_DEPTH - 1)


def test_yaml_is_refused_one_level_beyond_the_limit() -> None:
    with pytest.raises(YamlError, match="exceeded max depth"):
        parse_yaml(b"[" * DEEP + b"]" * DEEP)
    assert deeper_than(parse_yaml(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)[0], MAX_DEPTH - 1)


def test_aliases_do_not_add_up_to_more_depth() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{at}: &a{at} [*a{at - 1}]" for at in range(1, 99)]
    deep = "[" * 950 + "*a98" + "]" * 950
    with pytest.raises(YamlError, match="exceeded max depth"):
        parse_yaml("\n".join([*lines, f"b: {deep}"]).encode())


def bombs() -> dict[str, bytes]:
    lists = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lists += [f"a{at}: &a{at} [{','.join([f'*a{at - 1}'] * 9)}]" for at in range(1, 12)]
    merges = ["a0: &a0 {x: 1}"] + [f"a{at}: &a{at} {{<<: [*a{at - 1}, *a{at - 1}]}}" for at in range(1, 40)]
    text = ["a: &a " + "x" * 100_000, "b: [" + ",".join(["*a"] * 900) + "]"]
    keys = ["a: &a " + "k" * 100_000, "b: [" + ",".join(["{*a : 1}"] * 900) + "]"]
    return {name: "\n".join(rows).encode() for name, rows in locals().items()}


@pytest.mark.parametrize("name", bombs())
def test_aliases_that_multiply_are_refused(name: str) -> None:
    with pytest.raises(YamlError, match="document contains excessive aliasing"):
        parse_yaml(bombs()[name])


def test_an_alias_of_what_contains_it_is_refused() -> None:
    with pytest.raises(YamlError, match="anchor 'a' value contains itself"):
        parse_yaml(b"a: &a {b: *a}")


def test_places_of_one_anchor_share_nothing() -> None:
    value, _ = parse_yaml(b"a: &a {b: [1]}\nc: *a")
    value["a"]["b"].append(2)
    assert value["c"] == {"b": [1]}


def test_tags_and_merged_maps_read_as_in_go() -> None:
    value, twice = parse_yaml(b"a: &a {x: 1, z: 1}\nb: {<<: *a, z: 2}\nc: !!seq {d: !thing e}\nf: =")
    assert value == {"a": {"x": 1, "z": 1}, "b": {"x": 1, "z": 2}, "c": {"d": "e"}, "f": "="}
    assert twice == ['yaml: unmarshal errors:\n  line 2: key "z" already set in map']


# --- patches ---------------------------------------------------------------------------------------------------------


def patched(document: Any, operations: list[dict[str, Any]]) -> Any:
    return json_patch.apply(document, json.dumps(operations).encode())


def refused(document: Any, operations: list[dict[str, Any]]) -> int:
    with pytest.raises(ApiError) as caught:
        patched(document, operations)
    return caught.value.code


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "copy", "from": "/x", "path": "/x/-"}] * 30,
        [{"op": "copy", "from": "/x", "path": f"/k{at}"} for at in range(9_000)],
        [{"op": "copy", "from": "/x", "path": "/x" + "/0" * (1 << at)} for at in range(12)],
    ],
    ids=["doubling", "many", "deepening"],
)
def test_copies_are_refused_once_they_add_up(operations: list[dict[str, Any]]) -> None:
    assert refused({"x": [[["y" * 400]]]}, operations) == 422


def test_copies_within_the_limit_are_made() -> None:
    text = "y" * (1 << 20)
    made = patched({"x": text}, [{"op": "copy", "from": "/x", "path": f"/x{at}"} for at in range(2)])
    assert made == {"x": text, "x0": text, "x1": text}


def test_operations_cannot_nest_a_document_beyond_the_limit() -> None:
    halves = [{"op": "add", "path": "/a", "value": nested(600)}, {"op": "add", "path": "/b", "value": nested(600)}]
    move = {"op": "move", "from": "/b", "path": "/a" + "/0" * 600}
    assert refused({}, [*halves, move]) == 422


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def test_ten_thousand_operations_are_the_most() -> None:
    test = {"op": "test", "path": "/a", "value": 1}
    assert patched({"a": 1}, [test] * 10_000) == {"a": 1}
    assert refused({"a": 1}, [test] * 10_001) == 413


@pytest.mark.parametrize("index", ["9" * 5000, "-" + "9" * 5000, "٣", "1_0", " 1", "0" * 4500])
def test_a_strange_index_is_refused(index: str) -> None:
    assert refused({"a": [1]}, [{"op": "replace", "path": f"/a/{index}", "value": 2}]) == 422


EDITS = st.lists(st.tuples(st.sampled_from(["insert", "remove", "set"]), st.integers(0, 10_000)), max_size=60)


@given(size=st.integers(0, 5000), edits=EDITS)
def test_a_list_in_pieces_is_edited_like_a_list(size: int, edits: list[tuple[str, int]]) -> None:
    plain = list(range(size))
    pieces = ChunkedList(list(plain))
    for at, (edit, place) in enumerate(edits):
        if edit == "insert":
            plain.insert(place % (len(plain) + 1), -at)
            pieces.insert(place % (len(pieces) + 1), -at)
        elif plain and edit == "remove":
            del plain[place % len(plain)], pieces[place % len(pieces)]
        elif plain:
            plain[place % len(plain)] = pieces[place % len(pieces)] = -at
    assert list(pieces) == plain and len(pieces) == len(plain)


def test_edits_of_long_nested_lists_come_out_as_plain_lists() -> None:
    document = {"x": [[0] * 5000 for _ in range(3000)]}
    made = patched(
        document,
        [
            {"op": "add", "path": "/x/7/3", "value": 5},
            {"op": "remove", "path": "/x/0"},
            {"op": "copy", "from": "/x/6/3", "path": "/y"},
            {"op": "test", "path": "/x/6/3", "value": 5},
        ],
    )
    assert type(made["x"]) is list and type(made["x"][6]) is list
    assert (len(made["x"]), len(made["x"][6]), made["y"]) == (2999, 5001, 5)
    assert len(document["x"]) == 3000 and document["x"][7] == [0] * 5000


@pytest.mark.parametrize("media", [JSON_PATCH, MERGE_PATCH, STRATEGIC])
def test_a_patch_that_is_too_deep_is_refused(media: str) -> None:
    live = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    with pytest.raises(ApiError) as caught:
        patch_object(live, b'{"a":' * DEEP + b"1" + b"}" * DEEP, media, type_named("ConfigMap"))
    assert caught.value.code == 400 and "exceeded max depth" in caught.value.message


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [4300, 4301, 9000, 10_000])
def test_a_quantity_of_thousands_of_digits_keeps_its_value(digits: int) -> None:
    text = "1" * digits
    assert str(Quantity.parse(text)) == text
    assert str(Quantity.parse("1" + "0" * (digits - 1))) == "1" + "0" * (digits - 19) + "E"


@pytest.mark.parametrize("text", ["1" * 10_001, "1e" + "9" * 5000, "0." + "0" * 20_000 + "1"])
def test_a_longer_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


def test_a_yaml_number_of_a_million_digits_is_a_text() -> None:
    assert parse_yaml(b"a: " + b"1" * 1_000_000)[0] == {"a": "1" * 1_000_000}


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (b'"a" 1]', "invalid character '1' after array element"),
        (b"x]", "invalid character 'x' looking for beginning of value"),
        (b"{x", "invalid character 'x' looking for beginning of object key string"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b"1] x", "invalid character 'x' after top-level value"),
        (b'"\x01"]', "invalid character '\\x01' in string literal"),
        (b"1", "unexpected end of JSON input"),
        (b'"', "unexpected end of JSON input"),
    ],
)
def test_a_long_text_that_is_not_json_is_refused_with_the_message_of_a_short_one(end: bytes, words: str) -> None:
    for start in (b"[", b"[" + b"1," * 100_000):
        with pytest.raises(GoSyntaxError) as caught:
            parse(start + end)
        assert str(caught.value) == words


def test_twenty_thousand_elements_are_merged_into_as_many() -> None:
    live = {"metadata": {"name": "a", "finalizers": [f"a/b{at}" for at in range(20_000)]}}
    more = {"metadata": {"finalizers": [f"a/c{at}" for at in range(20_000)]}}
    made = patch_object(live, json.dumps(more).encode(), STRATEGIC, type_named("ConfigMap")).obj
    assert len(made["metadata"]["finalizers"]) == 40_000
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": live["metadata"]["finalizers"]}}
    made = patch_object(live, json.dumps(gone).encode(), STRATEGIC, type_named("ConfigMap")).obj
    assert "finalizers" not in made["metadata"]


def test_a_number_beyond_64_bits_can_be_copied() -> None:
    operations = b'[{"op":"add","path":"/a","value":1e400},{"op":"copy","from":"/a","path":"/b"}]'
    assert set(json_patch.apply_operations({}, json_patch.parse_exact(operations))) == {"a", "b"}
