"""CEL as Kubernetes has it: its functions, its complaints."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.cel import Failed, compiled, problem

TRUE = [
    "'abc'.charAt(1) == 'b'",
    "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
    "['a', 'b'].join('-') == 'a-b' && ['a', 'b'].join() == 'ab'",
    "'ÄbC'.lowerAscii() == 'Äbc' && 'ab'.upperAscii() == 'AB'",
    "'abcabc'.indexOf('c') == 2 && 'abcabc'.lastIndexOf('a') == 3 && [1, 2].indexOf(2) == 1",
    "'abab'.replace('a', 'x') == 'xbxb' && 'abab'.replace('a', 'x', 1) == 'xbab'",
    "'abc'.substring(1) == 'bc' && 'abc'.substring(0, 2) == 'ab' && ' a '.trim() == 'a'",
    "'%s is %d'.format(['a', 3]) == 'a is 3'",
    "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
    "'abc'.contains('b') && !'abc'.contains('d')",
    "sets.contains([1, 2], [1]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2])",
    "[1, 2, 3].isSorted() && [1, 2, 3].sum() == 6 && [3, 1].min() == 1 && [3, 1].max() == 3",
    "quantity('1Gi').isGreaterThan(quantity('1M')) && quantity('500m').add(quantity('500m')).isInteger()",
    "quantity('2').compareTo(quantity('2000m')) == 0 && quantity('-1').sign() == -1 && quantity('3').asInteger() == 3",
    "isQuantity('1.5Gi') && !isQuantity('one')",
    "isURL('https://a.b/c') && !isURL('nonsense')",
    "url('https://a.b:8443/c?d=e').getHost() == 'a.b:8443' && url('https://a.b:8443/c').getPort() == '8443'",
    "url('https://a.b/c?d=e').getQuery() == {'d': ['e']} && url('https://[::1]:80/').getHostname() == '::1'",
    "isIP('10.0.0.1') && !isIP('10.0.0') && ip('::1').family() == 6 && ip('127.0.0.1').isLoopback()",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').prefixLength() == 8",
    "self.items.all(item, item.size > 0) && self.items.exists(item, item.size == 2)",
]


@pytest.mark.parametrize("text", TRUE)
def test_functions_are_those_of_kubernetes(text: str) -> None:
    values: dict[str, Any] = {"self": {"items": [{"size": 1}, {"size": 2}]}}
    assert problem(text, frozenset(("self",))) == ""
    assert compiled(text).evaluate(values) is True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("self.gone == 1", "no such key: gone"),
        ("1 / self.zero == 1", "division by zero"),
        ("self.zero == 0 ? 'a'.charAt(7) == '' : true", "index out of range: 7"),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
    ],
)
def test_what_cannot_be_evaluated_says_why(text: str, why: str) -> None:
    with pytest.raises(Failed, match=why):
        compiled(text).evaluate({"self": {"zero": 0}})


def test_names_that_are_not_there_are_refused_before_anything_runs() -> None:
    told = problem("self.a == other.b", frozenset(("self",)))
    assert told == (
        "compilation failed: ERROR: <input>:1:11: undeclared reference to 'other' (in container '')\n"
        " | self.a == other.b\n"
        " | ..........^"
    )
    assert problem("[1].all(x, x > 0)", frozenset()) == ""


def test_bad_syntax_is_shown_where_it_is() -> None:
    told = problem("self.a ==", frozenset(("self",)))
    assert told.startswith("compilation failed: ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>'")
    assert told.endswith(" | self.a ==\n | .........^")
