"""CEL expressions: their cost, their limits, and their errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

from podfit.api.cel.cost.budget import Budget, Interrupted, YieldPolicy
from podfit.api.cel.cost.sizes import Range
from podfit.api.cel.evaluation.program import Environment
from podfit.api.cel.parsing.parser import MOST_CHARACTERS, MOST_DEPTH
from podfit.api.cel.parsing.syntax import BadExpression
from podfit.api.cel.types import DYN, INT, list_of
from podfit.api.cel.values import CostExceeded, Failed, Joined, same

_ANY = Environment({"self": DYN})
_NUMBERS = Environment({"self": list_of(INT)})


def _cost(text: str, value: Any = None) -> int:
    budget = Budget(10**9, 10**9)
    _ANY.compile(text).run({"self": value}, budget)
    return 10**9 - budget.left


def _refusal(text: str) -> str:
    with pytest.raises(BadExpression) as error:
        _ANY.compile(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("1 + 2 == 3", 2),
        ("self.a.b == 1", 4),
        ("has(self.a)", 1),
        ("self.a.b == 1 || self.a.b == 2", 4),
        ("self.a.b == 2 && self.a.b == 1", 4),
        ("true ? self.a.b == 1 : self.a.b == 2", 4),
        ("self.l.all(x, x > 0)", 2 + 3 * (3 + 2) + 1),
        ("self.l.exists(x, x == 2)", 2 + 2 * (4 + 2) + 4),
        ("self.l.exists_one(x, x == 2)", 2 + 3 * 3 + 1 + 2),
        ("self.l.map(x, x) == []", 2 + 3 * (12 + 1) + 1 + 0),
        ("self.l.filter(x, x > 1).size() == 2", 2 + 3 * 3 + 2 * 12 + 1 + 1 + 1),
        ("'a'.matches('b') || true", 1),
        ("self.text.contains('abcdefghijk')", 2 + 10 * 2),
        ("self.text.matches('a{10}b')", 2 + 11 * 2),
        ("self.text + self.text == ''", 4 + 20),
        ("self.text.lowerAscii() == ''", 2 + 10),
        ("self.l.sum() == 6", 2 + 3 + 1),
        ("[self.l, self.l].size() == 2", 4 + 10 + 2),
        ("{'a': self.l}.size() == 1", 2 + 30 + 2),
        ("lists.range(50).size() == 50", 61 + 2),
        ("quantity('1Gi') == quantity('2Gi')", 1 + 1 + 1),
        ("cel.bind(x, self.a.b, x + x) == 2", 3 + 3 + 1),
    ],
)
def test_evaluations_cost_what_they_cost_in_kubernetes(text: str, cost: int) -> None:
    value = {"a": {"b": 1}, "l": [1, 2, 3], "text": "x" * 100}
    assert _cost(text, value) == cost


def test_an_expression_that_costs_too_much_is_cancelled() -> None:
    program = _NUMBERS.compile("self.all(x, self.all(y, self.all(z, x + y + z > 0)))")
    budget = Budget()
    with pytest.raises(CostExceeded, match="operation cancelled: actual cost limit exceeded"):
        program.run({"self": list(range(1, 1000))}, budget)
    assert 9_000_000 - 100 < budget.left < 9_000_000


@pytest.mark.parametrize(
    "text",
    [
        "self.all(x, self.all(y, self.all(z, x < 0 || y < 0 || true))) || true",
        "true || self.all(x, self.all(y, self.all(z, true)))",
        "self.exists(x, self.exists(y, self.exists(z, z < 0))) && false",
    ],
)
def test_no_operator_absorbs_that_an_evaluation_was_cancelled(text: str) -> None:
    program = _NUMBERS.compile(text)
    if text.startswith("true"):
        assert program.run({"self": list(range(1, 1000))}, Budget()) is True
        return
    with pytest.raises(CostExceeded):
        program.run({"self": list(range(1, 1000))}, Budget())


def test_operands_of_macros_are_evaluated_once_at_their_stated_cost() -> None:
    chain = _ANY.compile("optional.of(1)" + ".optMap(x, x)" * 100 + ".hasValue()")
    with pytest.raises(CostExceeded):
        chain.run({"self": None}, Budget())
    assert chain.estimate(lambda path: None) > 2**63


def test_joining_lists_copies_nothing() -> None:
    text = "cel.bind(x0, self, " + "".join(f"cel.bind(x{at + 1}, x{at} + x{at}, " for at in range(40)) + "x40.size()"
    program = _NUMBERS.compile(text + ")" * 41 + f" == {1000 << 40}")
    assert program.run({"self": list(range(1000))}, Budget()) is True


def test_a_joined_list_is_the_list_of_its_parts() -> None:
    made: Any = [0]
    for number in range(1, 1000):
        made = Joined(made, [number])
    assert [*made] == list(range(1000)) and made[999] == 999 and made[0] == 0 and same(made, list(range(1000)))


def test_an_evaluation_ends_when_its_pace_says_so() -> None:
    class Impatient(YieldPolicy):
        steps = 0

        def step(self) -> None:
            self.steps += 1
            if self.steps == 3:
                raise Interrupted

    yielding = Impatient()
    with pytest.raises(Interrupted, match="operation interrupted"):
        _NUMBERS.compile("self.all(x, self.all(y, x + y > 0))").run(
            {"self": list(range(1, 2000))}, Budget(yielding=yielding)
        )
    assert yielding.steps == 3


def test_values_that_are_not_of_their_declared_type_fail_the_evaluation() -> None:
    with pytest.raises(Failed, match="no such overload"):
        _NUMBERS.compile("self.all(x, x + 1 > 0)").run({"self": ["a", {}]}, Budget())
    with pytest.raises(Failed, match="got 'types.Int', expected iterable type"):
        _NUMBERS.compile("self.all(x, x > 0)").run({"self": 5}, Budget())


_UNTYPED = Environment({"v": DYN})


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("v.x == 1", "a", "no such key: x"),
        ("v.x.y == 1", {"x": None}, "no such key: y"),
        ("v[0] == 1", "a", "no such key: 0"),
        ("v['x'] == 1", None, "no such key: x"),
        ("v['x'] == 1", [1], "unsupported index type 'string' in list"),
        ("v[dyn(0.5)] == 1", [1], "unsupported index value 0.5 in list"),
        ("v[dyn(1.0)] == 1", [1], "index out of bounds: 1"),
        ("size(v) == 1", None, "no such overload: size"),
        ("v.exists(x, x)", "a", "got 'types.String', expected iterable type"),
    ],
)
def test_operations_on_values_of_another_type_fail_in_kubernetes_words(text: str, value: Any, message: str) -> None:
    with pytest.raises(Failed) as raised:
        _UNTYPED.compile(text).run({"v": value}, Budget())
    assert str(raised.value) == message


def test_a_scalar_has_no_fields_and_a_whole_number_is_an_index() -> None:
    assert _UNTYPED.compile("has(v.x)").run({"v": "a"}, Budget()) is False
    assert _UNTYPED.compile("v[dyn(1.0)] == 5").run({"v": [4, 5]}, Budget()) is True


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("int(dyn('z')) == 1", "type conversion error from 'string' to 'int'"),
        ("string(dyn([1])) == 'a'", "no such overload: string(list)"),
    ],
)
def test_conversions_of_constants_that_can_only_fail_are_rejected(text: str, problem: str) -> None:
    with pytest.raises(BadExpression, match=f"^program instantiation failed: {re.escape(problem)}$"):
        _UNTYPED.compile(text)


def test_an_expression_has_at_most_so_many_characters() -> None:
    limit = f"size: {MOST_CHARACTERS + 1}, limit {MOST_CHARACTERS}"
    refusal = _refusal("'" + "x" * (MOST_CHARACTERS - 1) + "'")
    assert refusal == f"compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit: {limit}"
    assert _ANY.compile("'" + "x" * (MOST_CHARACTERS - 2) + "'")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(" * 300 + "true" + ")" * 300, f"expression recursion limit exceeded: {MOST_DEPTH}"),
        ("[" * 300 + "]" * 300, f"expression recursion limit exceeded: {MOST_DEPTH}"),
        ("+".join(["1"] * 300) + " > 0", "max recursion depth exceeded"),
        ("self" + ".a" * 300, "max recursion depth exceeded"),
        ("self" + "[0]" * 300, "max recursion depth exceeded"),
        ("true" + " ? true : true" * 300, f"expression recursion limit exceeded: {MOST_DEPTH}"),
    ],
)
def test_an_expression_is_nested_at_most_so_deeply(text: str, why: str) -> None:
    assert _refusal(text) == f"compilation failed: ERROR: <input>:-1:0: {why}"


def test_long_chains_of_logic_are_not_deep() -> None:
    assert _ANY.compile(" && ".join(["true"] * 5000)).run({"self": None}, Budget()) is True
    assert _ANY.compile("!" * 5000 + "true").run({"self": None}, Budget()) is True


def test_bindings_are_seen_inside_and_not_outside() -> None:
    assert _ANY.compile("cel.bind(x, 3, cel.bind(y, x * x, x + y)) == 12").run({"self": None}, Budget()) is True
    assert "undeclared reference to 'x'" in _refusal("cel.bind(x, 3, x == 3) && x == 3")
    assert "cel.bind() variable names must be simple identifiers" in _refusal("cel.bind(x.y, 3, true)")


def test_an_estimate_is_never_below_what_an_evaluation_costs() -> None:
    value = {"l": [1, 2, 3], "text": "x" * 100, "m": {"a": "b"}}
    sizes = {("self", "l"): Range(0, 3), ("self", "text"): Range(0, 100), ("self", "m"): Range(0, 1)}
    for text in ("self.l.all(x, x > 0)", "self.text.matches('a+')", "self.l.map(x, x + 1).sum() > 3"):
        assert _ANY.compile(text).estimate(sizes.get) >= _cost(text, value) - 5, text


def test_uses_finds_the_variable_and_not_its_namesake() -> None:
    both = Environment({"self": DYN, "oldSelf": DYN})
    assert both.compile("self.all(x, x == oldSelf)").uses("oldSelf")
    assert not both.compile("self.all(oldSelf, oldSelf == 1)").uses("oldSelf")
    assert both.compile("oldSelf.all(oldSelf, oldSelf == 1)").uses("oldSelf")
    assert not both.compile("self.oldSelf == 'oldSelf'").uses("oldSelf")


def test_the_pace_checks_early_an_evaluation_whose_units_of_cost_may_take_long() -> None:
    class Ending(YieldPolicy):
        def step(self) -> None:
            raise Interrupted

    budget = Budget(yielding=Ending())
    nested = {"self": [[*range(1000)] for _ in range(100)]}
    with pytest.raises(Interrupted):
        Environment({"self": list_of(list_of(INT))}).compile("self.all(x, self == self)").run(nested, budget)
    assert 10_000_000 - budget.left < 200


def test_an_empty_expression_has_a_place_and_no_line_to_show() -> None:
    with pytest.raises(BadExpression) as refused:
        Environment({}).compile("")
    words = str(refused.value)
    assert "ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>'" in words and "\n" not in words
