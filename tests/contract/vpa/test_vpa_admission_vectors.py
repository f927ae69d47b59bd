"""Recorded admission requests: patches of pods, and validation and defaulting of autoscaler objects."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from vpa_vectors import cases, cases_where, difference

from podfit.api.quantity import Quantity
from podfit.api.selectors import LabelSelector
from podfit.vpa.admission.decide.review import ReviewAnswer, ReviewContext, answer, index_vpas
from podfit.vpa.admission.decide.validate import Allowed, validate
from podfit.vpa.model.objects.matching import Target


def world_of(case: dict[str, Any]) -> ReviewContext:
    selectors, owners = case.get("selectors") or {}, case.get("owners") or {}

    def selector_of(vpa: Any) -> LabelSelector | None:
        meta = vpa["metadata"]
        text = selectors.get(f"{meta['namespace']}/{meta['name']}", "!")
        return None if text == "!" else LabelSelector.parse(text)

    def topmost_of(namespace: str, owner: Any) -> Target | None:
        kind, name = owner["kind"], owner["name"]
        top = owners.get(f"{kind}/{name}", f"x|{kind}/{name}")
        return None if top == "!" else Target(namespace, *top.split("|")[1].split("/"))

    most = case.get("maxAllowedCpuBoost")
    return ReviewContext(
        index_vpas(case.get("vpas") or ()),
        selector_of,
        topmost_of,
        case.get("limitRanges") or (),
        case.get("featureGates") or {},
        Quantity.parse(most) if most else None,
        change_without_recommendation=True,
    )


def respond(case: dict[str, Any]) -> dict[str, Any]:
    if case.get("contentType", "application/json") != "application/json":
        return {"httpStatus": 200, "response": None}
    verdict: ReviewAnswer = answer(case.get("body") or json.dumps(case["review"]), world_of(case))
    return {"httpStatus": 200, "patch": verdict.patch, "response": verdict.to_response()}


def unordered(expect: Any) -> Any:
    """Normalises what upstream's maps leave unordered: resources of a container, parts of an annotation, causes."""
    if not isinstance(expect, dict):
        return sorted(expect)
    shown = copy.deepcopy(expect)
    for entry in shown.get("patch") or ():
        if entry["path"].endswith("/vpaUpdates"):
            entry["value"] = sorted(entry["value"].replace("; ", ", ").split(", "))
    if shown.get("patch"):
        shown["patch"].sort(key=lambda entry: entry["path"])
    status = shown["response"]["response"].get("status") if shown.get("response") else None
    if status:
        status["message"] = sorted(status["message"].replace("[", "").replace("]", "").split(", "))
        status["details"]["causes"].sort(key=str)
    return shown


def check(got: Any, case: dict[str, Any]) -> None:
    expect = case["expect"]
    if isinstance(expect, dict) and "panic" in expect:
        return
    if case["variants"] > 1:
        got, expect = unordered(got), unordered(expect)
    assert got == expect, difference(got, expect)


@pytest.mark.parametrize("case", cases("admission"), ids=lambda case: case["name"])
def test_pod_is_admitted_with_the_recorded_patch(case: dict[str, Any]) -> None:
    check(respond(case), case)


@pytest.mark.parametrize(
    "case", cases_where("validation", lambda case: case["op"] == "admit"), ids=lambda case: case["name"]
)
def test_autoscaler_object_is_admitted_as_recorded(case: dict[str, Any]) -> None:
    check(respond(case), case)


@pytest.mark.parametrize(
    "case", cases_where("validation", lambda case: case["op"] == "validate"), ids=lambda case: case["name"]
)
def test_autoscaler_object_gets_the_recorded_errors(case: dict[str, Any]) -> None:
    given = case["options"]
    allowed = Allowed(
        given["IsVPACreate"], given["AllowCPUStartupBoost"], given["AllowPerVPAConfig"], given["AllowInPlace"]
    )
    check([str(error) for error in validate(case["vpa"], allowed)], case)
