"""CEL with any text and any values: it never crashes, always ends, and computes the same results as Python."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.api.cel.cost.budget import Budget
from podfit.api.cel.evaluation.program import Environment
from podfit.api.cel.parsing.parser import parsed
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.cel.types import DYN, INT, list_of
from podfit.api.cel.values import INT_MAX, INT_MIN, Failed, Stopped, same

_ANY = Environment({"self": DYN})
_PIECES = st.sampled_from(
    [
        "self",
        ".",
        "a",
        "b",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "?",
        "!",
        "-",
        "+",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "&&",
        "||",
        "in",
        "1",
        "2u",
        "1.5",
        "'x'",
        '"y"',
        "b'z'",
        "true",
        "null",
        "all",
        "exists",
        "map",
        "filter",
        "has",
        "size",
        "matches",
        "x",
        "y",
        "optional.of",
        ".?a",
        "[?0]",
        "cel.bind",
        "format",
        "'%s'",
        "duration",
        "'1s'",
        "'",
        "\\",
        "\n",
    ]
)
_TEXTS = st.lists(_PIECES, max_size=60).map(" ".join) | st.lists(_PIECES, max_size=60).map("".join) | st.text()
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=10,
)


@given(_TEXTS)
@settings(max_examples=500)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parsed(text)
    except BadExpression as error:
        assert str(error).startswith("compilation failed: ERROR: <input>:")


@given(st.sampled_from("([{!-"), st.integers(1, 3000), st.sampled_from(["1", "", "'", ")"]))
@settings(max_examples=50, deadline=None)
def test_no_depth_exhausts_the_stack(sign: str, depth: int, inside: str) -> None:
    try:
        parsed(sign * depth + inside)
    except BadExpression:
        pass


_EXPRESSIONS = st.recursive(
    st.sampled_from(["self", "self.a", "1", "2u", "1.5", "'ab'", "true", "null", "[]", "{}", "x", "self[0]", "b'q'"]),
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"]), inner
        ).map(lambda parts: f"({' '.join(parts)})"),
        st.tuples(inner, st.sampled_from(["all", "exists", "exists_one", "map", "filter"]), inner).map(
            lambda parts: f"{parts[0]}.{parts[1]}(x, {parts[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})"),
        inner.map(lambda part: f"size({part})"),
        inner.map(lambda part: f"string({part})"),
        inner.map(lambda part: f"dyn({part})"),
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.tuples(inner, inner).map(lambda parts: f"cel.bind(x, {parts[0]}, {parts[1]})"),
    ),
    max_leaves=12,
)


@given(_EXPRESSIONS, _JSON)
@settings(max_examples=500, deadline=None)
def test_any_expression_ends_within_its_budget_with_a_value_or_a_reason(text: str, value: Any) -> None:
    try:
        program = _ANY.compile(text)
    except BadExpression:
        return
    budget = Budget(10_000, 10_000)
    try:
        program.run({"self": value}, budget)
    except Failed as error:
        assert str(error)
    except Stopped:
        assert budget.left < 0
    assert program.estimate(lambda path: None) >= 0


# --- the same as Python ----------------------------------------------------------------------------------------------

_Term = tuple[str, Any]
"""An expression and its value; None if it overflows or divides by zero."""


def _checked(value: int) -> int | None:
    return value if INT_MIN <= value <= INT_MAX else None


def _arithmetic(left: _Term, sign: str, right: _Term) -> _Term:
    text, (one, other) = f"({left[0]} {sign} {right[0]})", (left[1], right[1])
    if one is None or other is None or (sign in "/%" and other == 0):
        return text, None
    if sign in "/%":
        quotient = int(abs(one) // abs(other)) * (1 if (one < 0) == (other < 0) else -1)
        if sign == "%" and one == INT_MIN and other == -1:
            return text, None
        return text, _checked(quotient if sign == "/" else one - other * quotient)
    return text, _checked({"+": one + other, "-": one - other, "*": one * other}[sign])


_INTEGERS = (st.integers(-10, 10) | st.integers(INT_MIN, INT_MAX)).map(lambda value: (str(value), value))
_SUMS = st.recursive(
    _INTEGERS,
    lambda inner: st.tuples(inner, st.sampled_from("+-*/%"), inner).map(lambda parts: _arithmetic(*parts)),
    max_leaves=15,
)


@given(_SUMS)
def test_integers_are_computed_as_by_python_but_for_overflow(term: _Term) -> None:
    text, value = term
    try:
        found = _ANY.compile(text).run({}, Budget())
    except Failed:
        found = None
    assert found == value


def _logic(left: _Term, sign: str, right: _Term) -> _Term:
    """Kleene's logic, with None for an error."""
    text, wanted = f"({left[0]} {sign} {right[0]})", sign == "||"
    if wanted in (left[1], right[1]) and (left[1] is wanted or right[1] is wanted):
        return text, wanted
    return text, None if None in (left[1], right[1]) else not wanted


_ATOMS = st.sampled_from([("true", True), ("false", False), ("(1 / 0 == 1)", None)])
_LOGIC = st.recursive(
    _ATOMS,
    lambda inner: st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda parts: _logic(*parts)),
    max_leaves=15,
)


@given(_LOGIC)
def test_logic_absorbs_errors_on_either_side(term: _Term) -> None:
    text, value = term
    try:
        found = _ANY.compile(text).run({}, Budget())
    except Failed:
        found = None
    assert found is value


def _has_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_nan(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_nan(item) for item in value)
    return isinstance(value, float) and math.isnan(value)


@given(_JSON, _JSON)
def test_equality_is_symmetric_and_reflexive_without_nan(one: Any, other: Any) -> None:
    assert same(one, other) is same(other, one)
    assert same(one, one) is not _has_nan(one)


@given(st.lists(st.integers(-100, 100), max_size=20))
def test_lists_are_sorted_and_made_distinct_as_by_python(items: list[int]) -> None:
    for text, expected in (
        ("self.sort()", sorted(items)),
        ("self.distinct()", list(dict.fromkeys(items))),
        ("self.reverse()", items[::-1]),
        ("self.map(x, x * 2)", [item * 2 for item in items]),
        ("self.filter(x, x > 0)", [item for item in items if item > 0]),
        ("self.sum()", sum(items)),
        ("self.all(x, x > 0)", all(item > 0 for item in items)),
    ):
        environment = Environment({"self": list_of(INT)})
        assert environment.compile(text).run({"self": items}, Budget()) == expected, text
