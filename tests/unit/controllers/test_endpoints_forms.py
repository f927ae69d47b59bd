"""The writes of a pass over a Service: the Endpoints object, and the time of the last change."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from podfit.controllers.endpoints import legacy
from podfit.controllers.endpoints.triggers import ANNOTATION, Triggers, noted

KEY = ("ns", "web")
SERVICE: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"clusterIP": "10.0.0.1", "selector": {"a": "b"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


def pod(number: int, *, ready: bool = True, since: str = "") -> dict[str, Any]:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    return {
        "metadata": {"name": f"p{number}", "namespace": "ns", "uid": f"u{number}"},
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": f"10.1.{number // 250}.{number % 250}"}],
            "conditions": [condition],
        },
    }


def calls(count: int) -> int:
    """The number of function calls of one pass over so many pods."""
    pods, made = [pod(number) for number in range(count)], 0
    legacy._wanted(SERVICE, pods)  # addresses are parsed once

    def counting(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(counting)
    try:
        legacy._wanted(SERVICE, pods)
    finally:
        sys.setprofile(before)
    return made


def test_the_work_of_a_pass_is_linear_in_the_pods_of_the_service() -> None:
    assert calls(800) < 5 * calls(200)


def test_ports_are_grouped_by_the_addresses_that_offer_them() -> None:
    ports = [{"name": "w", "port": 80, "targetPort": "web"}, {"name": "m", "port": 81, "targetPort": 7000}]
    service = {**SERVICE, "spec": {**SERVICE["spec"], "ports": ports}}
    web, other = pod(1), pod(2)
    web["spec"]["containers"] = [{"ports": [{"name": "web", "containerPort": 8080}]}]
    found = {
        tuple(port["name"] for port in subset["ports"]): [row["ip"] for row in subset["addresses"]]
        for subset in legacy._wanted(service, [web, other])["subsets"]
    }
    assert found == {("w",): ["10.1.0.1"], ("m",): ["10.1.0.1", "10.1.0.2"]}


def test_a_pod_without_an_address_of_the_services_family_is_left_out() -> None:
    other = pod(1)
    other["status"]["podIPs"] = [{"ip": "fd00::1"}]
    assert legacy._wanted(SERVICE, [other])["subsets"] == []


def test_a_thousand_addresses_are_kept_ready_ones_first_and_an_annotation_says_so() -> None:
    made = legacy._wanted(SERVICE, [pod(number, ready=number >= 500) for number in range(1200)])
    subset = made["subsets"][0]
    assert (len(subset["addresses"]), len(subset["notReadyAddresses"])) == (700, 300)
    assert made["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}


def test_the_annotation_of_too_many_addresses_is_compared() -> None:
    few = legacy._wanted(SERVICE, [pod(1)])
    stored = {
        **few,
        "metadata": {**few["metadata"], "annotations": {"endpoints.kubernetes.io/over-capacity": "truncated"}},
    }
    assert legacy._differs(stored, few) and not legacy._differs(few, few)


def test_addresses_are_sorted() -> None:
    subset = legacy._wanted(SERVICE, [pod(3), pod(1), pod(2)])["subsets"][0]
    assert [row["ip"] for row in subset["addresses"]] == ["10.1.0.1", "10.1.0.2", "10.1.0.3"]


def test_a_new_service_was_triggered_by_its_creation() -> None:
    assert Triggers().of(KEY, SERVICE, [pod(1, since="2026-01-01T00:00:07Z")]) == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(("first", "second", "found"), [("07", "08", "07"), ("09", "08", "08"), ("06", "05", "")])
def test_the_earliest_change_since_the_last_pass_counts(first: str, second: str, found: str) -> None:
    triggers, at = Triggers(), "2026-01-01T00:00:{}Z".format
    triggers.of(KEY, SERVICE, [pod(1, since=at("06")), pod(2, since=at("06"))])
    trigger = triggers.of(KEY, SERVICE, [pod(1, since=at(first)), pod(2, since=at(second))])
    assert trigger == (at(found) if found else "")


def test_a_pass_without_a_trigger_removes_the_annotation_of_an_earlier_one() -> None:
    assert noted({"name": "a", "annotations": {ANNOTATION: "x", "mine": "1"}}, "") == {
        "name": "a",
        "annotations": {"mine": "1"},
    }
    assert noted({"name": "a", "annotations": {ANNOTATION: "x"}}, "") == {"name": "a"}
    assert noted({"name": "a"}, "t") == {"name": "a", "annotations": {ANNOTATION: "t"}}
