"""`podfit simulate`: scenarios in, tables, JSON and a page out; errors are reported in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCENARIO = """
duration: 6h
history: 2h
policy: krr
nodes:
- {name: node, count: 4, allocatable: {cpu: "4", memory: 8Gi}}
workloads:
- name: web
  replicas: 4
  requests: {cpu: 300m, memory: 512Mi}
  limits: {cpu: "3", memory: 1Gi}
  usage:
    cpu: {curve: ramp, low: 200m, high: 1500m, over: 3h}
    memory: {curve: constant, level: 200Mi, noise: 0.1}
  autoscaler: {mode: InPlaceOrRecreate}
"""


def podfit(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "podfit.cli.main", *words], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    return path


def test_the_example_can_be_simulated(tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(podfit("simulate", "--example").stdout)
    done = podfit("simulate", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("RUN ")


def test_policies_and_modes_are_compared_in_two_tables(scenario: Path) -> None:
    done = podfit("simulate", str(scenario), "--policy", "krr", "--mode", "InPlace", "--mode", "Recreate")
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.split("\n\n")
    assert first.split()[:4] == ["RUN", "RESOURCE", "SLACK", "SHORT"]
    assert [line.split()[:2] for line in first.splitlines()[1:]] == [
        ["krr/InPlace", "cpu"],
        ["krr/InPlace", "memory"],
        ["krr/Recreate", "cpu"],
        ["krr/Recreate", "memory"],
    ]
    assert "updater" not in second.splitlines()[1] and "updater" in second.splitlines()[2]


def test_wide_has_a_row_for_each_workload(scenario: Path) -> None:
    third = podfit("simulate", str(scenario), "-o", "wide").stdout.split("\n\n")[2]
    assert [line.split()[0] for line in third.splitlines()] == ["WORKLOAD", "web", "web"]


def test_json_has_what_a_backtest_has_and_the_cluster_besides(scenario: Path) -> None:
    found = json.loads(podfit("simulate", str(scenario), "-o", "json").stdout)
    [run] = found["runs"]
    assert (found["kind"], found["scenario"]["pods"], run["policy"]) == ("SimulationReport", 4, "krr")
    assert {"slack", "samplesShort", "daysShort", "cutOff", "resizesADay", "restartsADay", "idleHours", "cost"} <= set(
        run["resources"]["cpu"]["total"]
    )
    assert run["resources"]["memory"]["workloads"][0]["name"] == "web"
    assert run["cluster"]["checkedSteps"] == 72
    assert {"evictions", "pendingHours", "deferredHours", "fragmentation"} <= set(run["cluster"])


def test_the_same_seed_prints_the_same_and_another_seed_does_not(scenario: Path) -> None:
    words = ("simulate", str(scenario), "-o", "json")
    assert podfit(*words).stdout == podfit(*words).stdout
    assert podfit(*words, "--seed", "7").stdout != podfit(*words).stdout


def test_the_page_has_tables_and_charts_and_no_address(scenario: Path) -> None:
    page = podfit("simulate", str(scenario), "--policy", "krr", "--policy", "default", "-o", "html").stdout
    assert page.count("<svg") == 2 and page.count("<table>") == 2
    assert "FRAGMENTED" in page and "http://" not in page and "https://" not in page


def with_trace(scenario: Path, file: str) -> None:
    curve = "{curve: ramp, low: 200m, high: 1500m, over: 3h}"
    scenario.write_text(SCENARIO.replace(curve, f"{{curve: trace, file: {file}, scale: 2}}"))


def test_traces_are_read_beside_the_scenario(scenario: Path) -> None:
    with_trace(scenario, "usage.npz")
    np.savez(scenario.parent / "usage.npz", cpu=np.full((3, 10), 0.25, np.float32), step_s=300)
    found = json.loads(podfit("simulate", str(scenario), "--mode", "Off", "-o", "json").stdout)
    total = found["runs"][0]["resources"]["cpu"]["total"]
    assert total["slack"] == 0.0, "0.25 times 2 is more than the 300m that are requested"


def test_traces_in_percent_are_parts_of_their_scale(scenario: Path) -> None:
    with_trace(scenario, "machines.npz")
    np.savez(scenario.parent / "machines.npz", cpu=np.full((3, 2, 288), 10, np.uint8))
    found = json.loads(podfit("simulate", str(scenario), "--mode", "Off", "-o", "json").stdout)
    assert found["runs"][0]["resources"]["cpu"]["total"]["slack"] == pytest.approx(1 - 0.2 / 0.3, abs=1e-6)


def test_a_csv_trace_is_read(scenario: Path) -> None:
    with_trace(scenario, "usage.csv")
    (scenario.parent / "usage.csv").write_text("time,container,cpu\n0,a,0.1\n300,a,0.1\n")
    assert podfit("simulate", str(scenario), "--mode", "Off").returncode == 0


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("absent.npz", None, "No such file or directory"),
        ("broken.npz", b"PK not a file", "is not an npz file with plain arrays"),
        ("wrong.csv", b"when,who\n1,2\n", "wrong columns when, who"),
    ],
)
def test_a_trace_that_cannot_be_read_is_named_by_its_field(
    scenario: Path, file: str, content: bytes | None, message: str
) -> None:
    with_trace(scenario, file)
    if content is not None:
        (scenario.parent / file).write_bytes(content)
    done = podfit("simulate", str(scenario))
    assert done.returncode == 1
    assert done.stderr.startswith("podfit: workloads[0].usage.cpu.file: ") and message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_wrong_field_ends_with_one_line_that_names_it(scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("replicas: 4", "replicas: four"))
    done = podfit("simulate", str(scenario))
    words = "workloads[0].replicas: 'four' is not a whole number from 1 to 2000000"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"podfit: {scenario}: {words}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "simulate needs a scenario: `podfit simulate --example` prints one"),
        (("x.yaml", "--policy", "best"), "unknown policy 'best': it is one of default, krr, window, rhythm, auto"),
        (("x.yaml", "--mode", "in-place"), "unknown mode 'in-place': it is one of Off, Initial, Recreate"),
        (("x.yaml", "-o", "pdf"), "allowed formats are: html,json,table,wide"),
    ],
)
def test_a_wrong_command_line_ends_with_two(words: tuple[str, ...], message: str) -> None:
    done = podfit("simulate", *words)
    assert done.returncode == 2
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_a_missing_scenario_file_is_a_one_line_error(tmp_path: Path) -> None:
    done = podfit("simulate", str(tmp_path / "none.yaml"))
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
