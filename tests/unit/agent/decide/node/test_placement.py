"""Whether a node matches the node selector and required affinity of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.decide.node.placement import matches


def test_node_affinity_is_checked_as_the_scheduler_does() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {"affinity": {"nodeAffinity": required}}
    assert matches(spec, {"zone": "a"}, "n")
    assert not matches(spec, {"zone": "c"}, "n")
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    named = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}}
    }
    assert matches(named, {}, "n") and not matches(named, {}, "m")


def affinity(operator: str, *values: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "n", "operator": operator, "values": list(values)}]}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


@pytest.mark.parametrize(
    ("spec", "with_5", "without"),
    [
        (affinity("NotIn", "5"), False, True),
        (affinity("Exists"), True, False),
        (affinity("DoesNotExist"), False, True),
        (affinity("Gt", "4"), True, False),
        (affinity("Gt", "5"), False, False),
        (affinity("Lt", "6"), True, False),
        (affinity("Lt", "x"), False, False),
        (affinity("Gt", "1", "2"), False, False),
        ({"nodeSelector": {"n": "5"}}, True, False),
        ({"nodeSelector": {"n": "6"}}, False, False),
    ],
)
def test_each_operator_reads_the_label(spec: dict[str, Any], with_5: bool, without: bool) -> None:
    assert (matches(spec, {"n": "5"}, "node"), matches(spec, {}, "node")) == (with_5, without)


def test_a_term_without_requirements_and_an_affinity_without_terms_match_nothing() -> None:
    for terms in ([{}], []):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        assert not matches({"affinity": {"nodeAffinity": required}}, {}, "n")
