"""Label and field selectors: what they match, and their parse errors."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.selectors import NOTHING, FieldSelector, LabelSelector, SelectorError

ONE, TWO, NONE = {"app": "x", "n": "5"}, {"app": "y"}, dict[str, str]()


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("", [ONE, TWO, NONE]),
        ("app", [ONE, TWO]),
        ("!app", [NONE]),
        ("app=x", [ONE]),
        ("app==x", [ONE]),
        (" app = x , n ", [ONE]),
        ("app!=x", [TWO, NONE]),
        ("app in (x,y)", [ONE, TWO]),
        ("app in (x, )", [ONE]),
        ("app notin (x)", [TWO, NONE]),
        ("n>4", [ONE]),
        ("n<5", []),
        ("app=", []),
        ("in in (in)", []),
    ],
)
def test_text_selects(text: str, matched: list[dict[str, str]]) -> None:
    selector = LabelSelector.parse(text)
    assert [labels for labels in (ONE, TWO, NONE) if selector.matches(labels)] == matched


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("app=x y", "found 'y', expected: ',' or 'end of string'"),
        ("app in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("app in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("app in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
        ("a,", "found '', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        (
            "x>y",
            'unable to parse requirement: values[0]: Invalid value: "y": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_broken_text_is_explained(text: str, why: str) -> None:
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)
    assert str(caught.value) == why


def test_bad_keys_and_values_are_refused() -> None:
    with pytest.raises(
        SelectorError, match='unable to parse requirement: <nil>: Invalid value: "-bad": name part must'
    ):
        LabelSelector.parse("-bad=1")
    with pytest.raises(SelectorError, match=r'values\[0\]\[a\]: Invalid value: "-": a valid label must be an empty'):
        LabelSelector.parse("a=-")


@pytest.mark.parametrize(
    ("selector", "matched"),
    [
        (None, []),
        ({}, [ONE, TWO, NONE]),
        ({"matchLabels": {"app": "x"}}, [ONE]),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}, [ONE, TWO]),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, [TWO, NONE]),
        ({"matchExpressions": [{"key": "n", "operator": "Exists"}], "matchLabels": {"app": "x"}}, [ONE]),
        ({"matchExpressions": [{"key": "n", "operator": "DoesNotExist"}]}, [TWO, NONE]),
    ],
)
def test_objects_select(selector: dict[str, Any] | None, matched: list[dict[str, str]]) -> None:
    compiled = LabelSelector.from_object(selector)
    assert [labels for labels in (ONE, TWO, NONE) if compiled.matches(labels)] == matched


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(SelectorError, match='"Near" is not a valid label selector operator'):
        LabelSelector.from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})


def test_the_same_selector_is_equal_hashable_and_reads_back() -> None:
    first, second = LabelSelector.parse("b,a in (y,x)"), LabelSelector.parse("a in (x, y),b")
    assert first == second
    assert hash(first) == hash(second)
    assert LabelSelector.parse(str(first)) == first


def test_fields_match_exactly() -> None:
    selector = FieldSelector.parse(r"spec.nodeName=n1,status.phase!=Failed,metadata.name==a\,b")
    fields = {"spec.nodeName": "n1", "status.phase": "Running", "metadata.name": "a,b"}
    assert selector.matches(fields)
    assert not selector.matches({**fields, "status.phase": "Failed"})
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("status.phase") is None
    assert FieldSelector.parse(str(selector)) == selector
    assert FieldSelector.parse("spec.nodeName=").matches({})
    assert FieldSelector.parse("").terms == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
    ],
)
def test_broken_field_selectors_are_explained(text: str, why: str) -> None:
    with pytest.raises(SelectorError) as caught:
        FieldSelector.parse(text)
    assert str(caught.value) == why


def test_only_gos_white_space_separates_words() -> None:
    with pytest.raises(SelectorError):
        LabelSelector.parse("a\x0c")
    assert LabelSelector.parse("a ,\tb\r\n") == LabelSelector.parse("a,b")


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("app=web,tier!=db", {"app": "web"}, True),
        ("app=web,tier!=db", {"app": "web", "tier": "db"}, False),
        ("tier in (a, b)", {"tier": "b"}, True),
        ("tier notin (a)", {}, True),
        ("tier", {"tier": ""}, True),
        ("!tier", {"tier": "x"}, False),
        ("", {}, True),
    ],
)
def test_selector_text_selects(text: str, labels: dict[str, str], matches: bool) -> None:
    assert LabelSelector.parse(text).matches(labels) is matches


def test_missing_label_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert LabelSelector.from_object(None) == NOTHING
    assert not LabelSelector.from_object(None).matches({"a": "b"})
    assert LabelSelector.from_object({}).matches({"a": "b"})
    picky = LabelSelector.from_object({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]})
    assert picky.matches({"a": "b"}) and not picky.matches({})
