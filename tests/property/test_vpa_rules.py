"""The rules of the autoscaler's definition reject exactly the amounts that webhook and recommender reject."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.quantity import Quantity
from podfit.api.registry.vpa_versions import to_v1
from podfit.api.schema.celrules.rules import rule_tree
from podfit.vpa.model.objects.allowed import contradictions

CHECKED = 10
"""The number of policies whose minimum and maximum the rules compare: more would exceed the API server's cost limit."""
DEFINITION = json.loads(files("podfit.apiserver").joinpath("definitions/verticalpodautoscalers.json").read_bytes())
TREES = {
    version["name"]: rule_tree(version["schema"]["openAPIV3Schema"], root=True)
    for version in DEFINITION["spec"]["versions"]
}
numbers = st.integers(-5, 5).flatmap(
    lambda number: st.sampled_from([number, str(number), f"{number}m", f"{number}000m", f"{number}Ki", f"{number}e3"])
)
amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), numbers)
policies = st.lists(
    st.fixed_dictionaries({}, optional={"minAllowed": amounts, "maxAllowed": amounts}), max_size=CHECKED
)


def refused(version: str, spec: dict[str, Any]) -> set[str]:
    """The messages of the violated rules."""
    tree = TREES[version]
    assert tree is not None
    body = {"spec": {"targetRef": {"kind": "Deployment", "name": "web"}, **spec}}
    return {_canonical(error.detail) for error in tree.errors(body, None)}


def _canonical(words: str) -> str:
    """The rules quote a minimum as written, the webhook as Kubernetes prints it."""
    return re.sub(r'"(.*)"', lambda found: f'"{Quantity.parse(found[1]).as_written()}"', words)


def expected(policies: list[Any]) -> set[str]:
    return {error.detail for policy in policies for error in contradictions("p", policy)}


def first_of_each(words: set[str]) -> set[str]:
    """A rule names the first policy that violates it: the numbers of others do not matter."""
    return {detail.split(" of ")[0] for detail in words}


@given(policies)
def test_the_definition_refuses_what_the_webhook_refuses_in_its_words(found: list[Any]) -> None:
    given_words, wanted = refused("v1", {"resourcePolicy": {"containerPolicies": found}}), expected(found)
    assert first_of_each(given_words) == first_of_each(wanted)
    assert given_words <= wanted


@given(policies)
def test_the_design_documents_form_is_held_to_the_same_rules(found: list[Any]) -> None:
    alpha = [{field: {"requests": amounts} for field, amounts in policy.items()} for policy in found]
    vpa = {"apiVersion": "autoscaling.k8s.io/v1alpha1", "spec": {"resourcePolicy": {"containerPolicies": alpha}}}
    same = to_v1(vpa)["spec"]["resourcePolicy"]
    assert refused("v1alpha1", {"resourcePolicy": vpa["spec"]["resourcePolicy"]}) == refused(  # type: ignore[index]
        "v1", {"resourcePolicy": same}
    )
