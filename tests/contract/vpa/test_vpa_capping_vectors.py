"""Recorded results of capping recommendations to pods, merging LimitRanges, scaling limits and computing quantities."""

from __future__ import annotations

from typing import Any

import pytest
from vpa_vectors import cases_where, close

from podfit.api.quantity import NANO, Quantity, QuantityError
from podfit.vpa.model.fitting.capping import capped_for_pod
from podfit.vpa.model.fitting.limitranges import merged
from podfit.vpa.model.fitting.limits import boundary_request, proportional_limits
from podfit.vpa.model.objects.pods import printed, resource_list
from podfit.vpa.model.objects.recommended import to_object
from podfit.vpa.recommender.decide.histograms import gomath
from podfit.vpa.recommender.decide.histograms.amounts import cpu_quantity, memory_quantity, quantities

INT64 = 2**63
FUNCTIONS: dict[str, Any] = {"exp2": gomath.exp2, "log": gomath.log, "pow": gomath.pow_}


def named(op: str) -> list[Any]:
    return cases_where("primitives", lambda case: case["op"] == op)


def identify(case: Any) -> str:
    return str(case.get("name", ""))


@pytest.mark.parametrize("case", cases_where("capping", lambda case: "op" not in case), ids=identify)
def test_recommendation_fits_the_pod(case: dict[str, Any]) -> None:
    bounds = merged(case["limitRanges"], "ns", all_containers=True)
    found = capped_for_pod(case["vpa"], case["pod"], bounds)
    got: Any = {"annotations": None, "recommendation": None}
    if found is not None:
        got = {"annotations": found[1], "recommendation": to_object(found[0])}
    if "panic" not in case["expect"]:
        assert got == case["expect"]


@pytest.mark.parametrize("case", cases_where("capping", lambda case: case.get("op") == "limitrange"), ids=identify)
def test_limit_ranges_merge(case: dict[str, Any]) -> None:
    bounds = merged(case["limitRanges"], case["namespace"])
    got = {
        "container": bounds.container and bounds.container.to_object(),
        "pod": bounds.pod and bounds.pod.to_object(),
    }
    assert got in [case["expect"], *case.get("alternatives", [])]


@pytest.mark.parametrize("case", named("limit"))
def test_limit_keeps_its_ratio(case: dict[str, Any]) -> None:
    lists = (resource_list(case[name]) for name in ("limit", "request", "recommendation", "default"))
    limits, notes = proportional_limits(*lists)
    assert {"annotations": notes, "limit": printed(limits) or (case["expect"]["limit"] and {})} == case["expect"]


@pytest.mark.parametrize("case", named("boundary"))
def test_request_at_the_boundary(case: dict[str, Any]) -> None:
    given = {name: value if value is None else Quantity.parse(value) for name, value in case["q"].items()}
    names = ("request", "limit", "boundary", "default")
    got = boundary_request(case["resource"], *(given[name] for name in names))
    if not isinstance(case["expect"], dict):
        assert (None if got is None else got.as_written()) == case["expect"]


@pytest.mark.parametrize("case", named("quantity"))
def test_quantity_is_read_as_upstream_reads_it(case: dict[str, Any]) -> None:
    expect = case["expect"]
    try:
        quantity = Quantity.parse(case["a"])
    except QuantityError as error:
        assert expect == {"error": str(error)}
        return
    text = quantity.as_written()
    assert (quantity.format, text, text) == (expect["format"], expect["string"], expect["json"])
    assert (not quantity, quantity.nanos % NANO == 0) == (expect["isZero"], expect["whole"])
    assert (quantity.nanos % 10**6 == 0) == expect["wholeMilli"]
    # Beyond 64 bits upstream wraps around or returns 0; podfit keeps the number.
    assert quantity.value == expect["value"] or abs(quantity.value) >= INT64
    assert quantity.milli == expect["milliValue"] or abs(quantity.milli) >= INT64
    whole = Quantity(quantity.value * NANO, quantity.format) if quantity.nanos % NANO else quantity
    assert whole.as_written() == expect["roundUp"]


@pytest.mark.parametrize("case", named("arith"))
def test_quantities_add_up(case: dict[str, Any]) -> None:
    a, b = Quantity.parse(case["a"]), Quantity.parse(case["b"])
    got = {"add": str(a + b), "sub": str(a - b), "cmp": (a > b) - (a < b), "equal": a == b}
    assert got == case["expect"]


@pytest.mark.parametrize("case", named("cpu") + named("memory"))
def test_amount_prints(case: dict[str, Any]) -> None:
    make = cpu_quantity if case["op"] == "cpu" else memory_quantity
    assert str(make(case["x"])) == case["expect"]


@pytest.mark.parametrize("case", named("resourceList"))
def test_amounts_are_rounded_and_humanized(case: dict[str, Any]) -> None:
    got = quantities(case["res"], case["humanize"], case["roundCPU"], case["roundMem"])
    assert printed(got) == case["expect"]


@pytest.mark.parametrize("case", cases_where("primitives", lambda case: case["op"] in FUNCTIONS))
def test_mathematics_agree_to_the_last_bit(case: dict[str, Any]) -> None:
    arguments = [float(case[name]) for name in ("x", "y") if name in case]
    assert close(FUNCTIONS[case["op"]](*arguments), float(case["expect"]))
