"""Selectors in access reviews: rejected, or ignored with a message."""

from __future__ import annotations

from podfit.apiserver.auth.review_selectors import field_selector_text, parse_problems, selector_errors


def rows(*requirements: tuple[str, str, list[str]]) -> dict[str, object]:
    names = ("key", "operator", "values")
    return {"requirements": [dict(zip(names, row, strict=True)) for row in requirements]}


def said(selector: dict[str, object], field: str = "labelSelector") -> list[str]:
    return [str(error) for error in selector_errors(selector, field, "s")]


def test_requirements_are_checked_but_operators_may_be_newer() -> None:
    assert said(rows(("a", "Newer", ["x"]))) == []
    assert said(rows(("a", "In", []))) == [
        "s.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
    ]
    assert said(rows(("a", "Exists", ["x"]))) == [
        "s.requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
    ]
    assert said(rows(("", "Exists", [])), "fieldSelector") == [
        "s.requirements[0].key: Required value: must be specified"
    ]
    assert said(rows(("a b", "Exists", [])))[0].startswith('s.requirements[0].key: Invalid value: "a b"')
    assert said({}) == ["s.requirements: Required value: when s is specified, requirements or rawSelector is required"]


def test_selectors_that_cannot_be_parsed_are_ignored_and_named() -> None:
    good, bad = ("a", "In", ["x"]), ("a", "In", ["x", "y"])
    field = "spec.resourceAttributes.fieldSelector"
    assert parse_problems({"fieldSelector": rows(good), "labelSelector": rows(bad)}) == []
    assert parse_problems({"fieldSelector": rows(good, bad)}) == [f"{field} partially ignored due to parse error"]
    assert parse_problems({"fieldSelector": rows(bad)}) == [f"{field} ignored due to parse error"]
    assert parse_problems({"labelSelector": {"rawSelector": "a in ("}}) == [
        "spec.resourceAttributes.labelSelector ignored due to parse error"
    ]


def test_the_fields_that_are_understood_are_authorized() -> None:
    assert field_selector_text(rows(("spec.nodeName", "In", ["n"]), ("a", "Exists", []))) == "spec.nodeName=n"
