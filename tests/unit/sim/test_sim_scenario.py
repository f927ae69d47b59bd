"""Scenarios are read from YAML, and errors in them are reported with their path."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest
import yaml

from podfit.sim.scenario.fields import BadScenario
from podfit.sim.scenario.model import DAILY, FAULTS, IN_PLACE, IN_PLACE_OR_RECREATE, MODES, NODE_DOWN, OFF, TRACE, Fault
from podfit.sim.scenario.parse import parse


def plain() -> dict[str, Any]:
    return {
        "nodes": [{"name": "node", "count": 2, "allocatable": {"cpu": "4", "memory": "8Gi"}}],
        "workloads": [
            {
                "name": "web",
                "replicas": 3,
                "requests": {"cpu": "500m", "memory": "256Mi"},
                "usage": {
                    "cpu": {"curve": "daily", "low": "100m", "high": "400m"},
                    "memory": {"curve": "constant", "level": "128Mi"},
                },
            }
        ],
    }


def put(scenario: dict[str, Any], path: list[str | int], value: Any) -> None:
    *parents, last = path
    at: Any = scenario
    for part in parents:
        at = at[part]
    at[last] = value


def test_a_scenario_gets_the_defaults_of_kubernetes() -> None:
    found = parse(yaml.safe_dump(plain()))
    [workload] = found.workloads
    assert (found.duration_s, found.step_s, found.seed) == (86400, 300, 0)
    assert (found.nodes[0].cpu, found.nodes[0].memory, found.nodes[0].pods) == (4000, 8 << 30, 110)
    assert (workload.cpu, workload.memory, workload.limits.cpu) == (500, 256 << 20, None)
    assert (workload.cpu_curve.kind, workload.cpu_curve.low, workload.cpu_curve.high) == (DAILY, 0.1, 0.4)
    assert workload.autoscaler.mode == OFF


def test_an_autoscaler_without_a_mode_resizes_in_place() -> None:
    scenario = plain()
    scenario["workloads"][0]["autoscaler"] = {}
    assert parse(yaml.safe_dump(scenario)).workloads[0].autoscaler.mode == IN_PLACE_OR_RECREATE


def test_a_bare_off_is_a_mode_although_yaml_reads_it_as_false() -> None:
    scenario = yaml.safe_dump(plain()).replace("  name: web", "  autoscaler: {mode: Off}\n  name: web")
    assert parse(scenario).workloads[0].autoscaler.mode == OFF


def test_the_example_is_a_scenario() -> None:
    found = parse((resources.files("podfit.sim.scenario") / "example.yaml").read_text())
    assert {fault.kind for fault in found.faults} == {"node-down", "metrics-gap", "recommender-down"}


def test_durations_are_added_up() -> None:
    scenario = plain() | {"duration": "1h30m", "step": "90s", "faults": [{"fault": "node-down", "at": 60, "for": "1m"}]}
    found = parse(yaml.safe_dump(scenario))
    assert (found.duration_s, found.step_s, found.steps) == (5400, 90, 60)
    assert found.faults == (Fault(NODE_DOWN, 60, 60),)


def test_a_trace_names_its_file() -> None:
    scenario = plain()
    scenario["workloads"][0]["usage"]["memory"] = {"curve": "trace", "file": "a.npz", "scale": "16Gi", "series": 3}
    curve = parse(yaml.safe_dump(scenario)).workloads[0].memory_curve
    assert (curve.kind, curve.file, curve.scale, curve.series) == (TRACE, "a.npz", 16 * 2.0**30, 3)


def test_policy_and_mode_can_be_set_for_all_workloads() -> None:
    found = parse(yaml.safe_dump(plain())).with_policy("krr").with_mode(IN_PLACE)
    assert {(workload.autoscaler.policy, workload.autoscaler.mode) for workload in found.workloads} == {
        ("krr", IN_PLACE)
    }


WEB: list[str | int] = ["workloads", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["nodes"], None, "nodes: required"),
        (["nodes"], [], "nodes: at least one is needed"),
        (["nodes"], "many", "nodes: must be a list, not text"),
        (["nodes", 0, "count"], 0, "nodes[0].count: 0 is not a whole number from 1 to 100000"),
        (["nodes", 0, "allocatable", "cpu"], None, "nodes[0].allocatable.cpu: required"),
        (["nodes", 0, "size"], 3, "nodes[0].size: unknown field; known are allocatable, count, labels, name"),
        ([*WEB, "name"], "Web_1", "workloads[0].name: 'Web_1' is not a name: lower case letters, digits, '-' and '.'"),
        (
            [*WEB, "requests", "cpu"],
            "lots",
            "workloads[0].requests.cpu: 'lots' is not a quantity: write 500m, 2 or 1Gi",
        ),
        ([*WEB, "requests", "memory"], "-1Gi", "workloads[0].requests.memory: '-1Gi' is negative"),
        ([*WEB, "requests", "cpu"], 0, "workloads[0].requests.cpu: must be above 0"),
        ([*WEB, "limits"], {"cpu": "1m"}, "workloads[0].limits.cpu: below the request"),
        ([*WEB, "limits"], {"disk": "1"}, "workloads[0].limits.disk: unknown field; known are cpu, memory"),
        ([*WEB, "usage", "cpu", "low"], None, "workloads[0].usage.cpu.low: required"),
        ([*WEB, "usage", "cpu"], 3, "workloads[0].usage.cpu: must be a mapping, not a number"),
        (
            [*WEB, "usage", "cpu", "peak"],
            "noon",
            "workloads[0].usage.cpu.peak: 'noon' is not a duration: write 90s, 5m, 1h30m or 2d",
        ),
        ([*WEB, "usage", "cpu", "noise"], -1, "workloads[0].usage.cpu.noise: -1 is not a number from 0 to 3"),
        (
            [*WEB, "autoscaler"],
            {"mode": "auto"},
            "workloads[0].autoscaler.mode: 'auto' is not one of " + ", ".join(MODES),
        ),
        (
            [*WEB, "autoscaler"],
            {"minAllowed": {"cpu": 2}, "maxAllowed": {"cpu": 1}},
            "workloads[0].autoscaler.minAllowed.cpu: above maxAllowed",
        ),
        (["policy"], "best", "policy: 'best' is not one of default, krr, window, rhythm, auto"),
        (["step"], "2h", "step: 7200 s is not between 1 s and 1 h"),
        (["duration"], "1m", "duration: shorter than one step"),
        (["duration"], 0, "duration: must be longer than 0"),
        (["duration"], "9999d", "duration: more than 100000 steps of 300 s"),
        (["seed"], 1.5, "seed: 1.5 is not a whole number from 0 to 9223372036854775807"),
        (
            ["faults"],
            [{"fault": "flood", "at": 0, "for": 1}],
            "faults[0].fault: 'flood' is not one of " + ", ".join(FAULTS),
        ),
        (
            ["faults"],
            [{"fault": "node-down", "at": 0, "for": 1, "nodes": "big"}],
            "faults[0].nodes: 'big' is not one of node",
        ),
        (
            ["faults"],
            [{"fault": "metrics-gap", "at": 0, "for": 1, "count": 2}],
            "faults[0].count: unknown field; known are at, fault, for",
        ),
    ],
)
def test_a_wrong_field_is_named_by_its_path(path: list[str | int], value: Any, message: str) -> None:
    scenario = plain()
    put(scenario, path, value)
    with pytest.raises(BadScenario) as refused:
        parse(yaml.safe_dump(scenario))
    assert str(refused.value) == message


def test_a_name_is_used_once() -> None:
    scenario = plain()
    scenario["workloads"] *= 2
    with pytest.raises(BadScenario, match=r"^workloads\[1\].name: 'web' is used twice$"):
        parse(yaml.safe_dump(scenario))


@pytest.mark.parametrize("text", ["", "[]", "just words", "a: [", "nodes: {a: 1, a: 2}"])
def test_an_invalid_scenario_is_a_one_line_error(text: str) -> None:
    with pytest.raises(BadScenario) as refused:
        parse(text)
    assert "\n" not in str(refused.value)


def test_a_fault_after_the_end_is_refused() -> None:
    scenario = plain() | {"faults": [{"fault": "metrics-gap", "at": "1d", "for": "1m"}]}
    with pytest.raises(BadScenario, match=r"^faults\[0\].at: after the end of the simulation$"):
        parse(yaml.safe_dump(scenario))


def test_a_fault_that_is_shorter_than_a_step_has_the_step_that_it_falls_into() -> None:
    fault = Fault(NODE_DOWN, 400.0, 10.0)
    assert [now for now in (0.0, 300.0, 600.0) if fault.active(now, 300.0)] == [300.0]
