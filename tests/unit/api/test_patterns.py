"""Patterns from clients: Go's syntax, Go's error messages, and matching in linear time."""

from __future__ import annotations

import pytest

from podfit.api.text.patterns import BadPattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("x[a", "missing closing ]: `[a`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("\\", "trailing backslash at end of expression: ``"),
        (r"\q", r"invalid escape sequence: `\q`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("((((a{100}){100}){100}){100})", "invalid repeat count: `{100}`"),
    ],
)
def test_patterns_that_go_rejects_are_rejected_with_its_message(pattern: str, words: str) -> None:
    with pytest.raises(BadPattern) as refused:
        compile_pattern(pattern)
    assert str(refused.value) == f"error parsing regexp: {words}"


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*a){25}", "^([a-z]+)*$", "(x+x+)+y"])
def test_no_expression_backtracks(pattern: str) -> None:
    # With backtracking each of these takes longer than the test run has time for.
    assert compile_pattern(pattern).search("a" * 50_000 + "!") is None or pattern == "(.*a){25}"


def test_expressions_mean_what_they_mean_in_go() -> None:
    assert compile_pattern(r"\Aa\z").search("a") and not compile_pattern(r"a\z").search("a\n")
    assert compile_pattern(r"^[[:alpha:]]\pL$").search("aß")
    assert compile_pattern("b").search("abc")
