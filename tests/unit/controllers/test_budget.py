"""The disruptions that a budget allows, and its messages about pods that it cannot count."""

import pytest

from podfit.controllers.disruption.budget import selector_text


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, "nil"),
        ({}, "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"),
        (
            {"matchLabels": {"b": "2", "a": "1"}},
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{},}",
        ),
        (
            {
                "matchExpressions": [
                    {"key": "k", "operator": "In", "values": ["x", "y"]},
                    {"key": "e", "operator": "Exists"},
                ]
            },
            "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{"
            "LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},"
            "LabelSelectorRequirement{Key:e,Operator:Exists,Values:[],},},}",
        ),
    ],
)
def test_a_selector_is_worded_as_go_prints_it(selector: dict[str, object] | None, text: str) -> None:
    assert selector_text(selector) == text
