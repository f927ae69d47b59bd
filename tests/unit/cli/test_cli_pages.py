"""Output fits the terminal, Events are in order, amounts have units, and a size that an autoscaler sets is marked."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podfit.cli.printing.amounts import number, quantity
from podfit.cli.printing.event_rows import event_rows, in_order
from podfit.cli.printing.output import LEAST, print_object, table
from podfit.cli.printing.wording import chapter_words, node_notable
from podfit.cli.resizing.overrides import overwrites
from podfit.cli.resizing.plans import RequestedSizes, plan
from podfit.cli.resizing.stages import ResizeStage, seen_by_node
from podfit.cli.sizing.measured import pod_objects
from podfit.cli.sizing.recommended import Recommendation
from podfit.cli.sizing.usage import ContainerUse

WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=12), min_size=1, max_size=30).map(" ".join)


@given(st.lists(st.tuples(st.text("xyz", max_size=8), WORDS), min_size=1, max_size=6), st.integers(40, 120))
def test_a_wrapped_table_fits_and_loses_no_word(rows: list[tuple[str, str]], width: int) -> None:
    lines = table(rows, ["NAME", "MESSAGE"], width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert " ".join(lines).split() == " ".join(["NAME MESSAGE", *(" ".join(row) for row in rows)]).split()


def test_without_a_terminal_lines_stay_whole() -> None:
    assert "\n" not in table([["a", "word " * 100]])


def test_a_very_narrow_terminal_still_gets_a_readable_column() -> None:
    assert max(len(line) for line in table([["a" * 30, "word " * 20]], width=20).splitlines()) <= 33 + LEAST


def event(reason: str, revision: int, last: str | None = None, exact: str | None = None) -> dict[str, Any]:
    meta = {"creationTimestamp": "2026-01-01T00:00:09Z", "resourceVersion": str(revision)}
    return {"reason": reason, "metadata": meta, "lastTimestamp": last, "eventTime": exact, "message": reason}


def test_events_of_one_second_keep_the_order_in_which_they_happened() -> None:
    happened = [
        event("FailedScheduling", 50, exact="2026-01-01T00:00:01.900000Z"),
        event("Scheduled", 90, exact="2026-01-01T00:00:02.500000Z"),
        event("Pulled", 60, "2026-01-01T00:00:02Z"),
        event("Created", 61, "2026-01-01T00:00:02Z"),
        event("Started", 62, "2026-01-01T00:00:02Z"),
        event("Killing", 55, "2026-01-01T00:00:10Z"),
    ]
    for seed in range(20):
        mixed = happened[:]
        random.Random(seed).shuffle(mixed)
        assert in_order(mixed) == happened


def test_an_event_names_its_container_where_its_message_does_not() -> None:
    started = {
        **event("Started", 1),
        "involvedObject": {"fieldPath": "spec.containers{a}"},
        "message": "Container started",
    }
    assert "a: Container started" in event_rows([started])
    named = {**started, "message": "Created container: a"}
    assert "a: Created" not in event_rows([named])


def sizes(cpu: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu}}


def row(*states: str | None) -> dict[str, Any]:
    names = ("desired", "allocated", "actuated", "actual")
    return {"name": "c", **{name: None if cpu is None else sizes(cpu) for name, cpu in zip(names, states, strict=True)}}


@pytest.mark.parametrize(
    ("rows", "stage"),
    [
        ([row("2", "1", "1", "1")], "Pending"),
        ([row("2", "2", "1", "1")], "Allocated"),
        ([row("2", "2", "2", "1")], "Actuated"),
        ([row("2", "2", "2", "2")], "Actual"),
        ([row("2", "2", "2", "2"), row("2", "1", "1", "1")], "Pending"),
        ([row("2", "2", "2", None)], "Actuated"),
    ],
)
def test_the_stage_agrees_with_the_table_of_states(rows: list[Any], stage: str) -> None:
    assert seen_by_node(ResizeStage("Pending", why="waiting for the node"), rows).stage == stage


def test_a_verdict_of_the_node_is_kept() -> None:
    deferred = ResizeStage("Pending", "Deferred", "needs 2 cpu")
    assert seen_by_node(deferred, [row("2", "2", "2", "2")]) == deferred


@given(st.integers(0, 10**13))
def test_quantities_are_exact(amount: int) -> None:
    assert number("memory", quantity("memory", amount)) == amount
    assert number("cpu", quantity("cpu", amount)) == amount


def test_usage_is_shaped_like_podmetrics_with_quantities() -> None:
    uses = [ContainerUse("d", "p", name, {"cpu": 5, "memory": 1 << 20}, {"cpu": 1000}, {}) for name in ("a", "b")]
    [pod] = pod_objects(uses, {("d", "p"): {"timestamp": "t", "window": "1s"}})
    assert (pod["apiVersion"], pod["kind"]) == ("metrics.k8s.io/v1beta1", "PodMetrics")
    assert pod["metadata"] == {"name": "p", "namespace": "d"} and pod["timestamp"] == "t"
    assert [container["name"] for container in pod["containers"]] == ["a", "b"]
    assert pod["containers"][0]["usage"] == {"cpu": "5m", "memory": "1Mi"}
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {}}


def test_no_upper_bound_is_said_in_words() -> None:
    given_ = Recommendation("v", "Auto", "c", "memory", (1 << 20,), 1, 2, 10**14)
    assert given_.cells()[-2] == "none yet" and "upperBound" not in given_.data()
    assert Recommendation("v", "Auto", "c", "cpu", (), 1, 2, 3000).cells()[-2] == "3"


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"memory_bytes": 32 << 20}, "memory limit 32Mi"),
        ({"memory_bytes": -1}, "memory limit none"),
        ({"memory_limit": "32Mi", "exit_code": 137}, "memory limit 32Mi, exit code 137"),
        ({"cpu_quota_us": 2000}, "cpu quota 2000 µs"),
    ],
)
def test_numbers_of_the_story_have_units(numbers: dict[str, Any], words: str) -> None:
    assert chapter_words(numbers) == words


def test_a_node_is_well_when_ready_and_without_pressure() -> None:
    assert not node_notable({"type": "Ready", "status": "True"})
    assert node_notable({"type": "Ready", "status": "Unknown"})
    assert not node_notable({"type": "MemoryPressure", "status": "False"})
    assert node_notable({"type": "DiskPressure", "status": "True"})


POD = {
    "metadata": {"name": "p", "namespace": "d", "uid": "u"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
}


@pytest.mark.parametrize(
    ("policies", "warned"),
    [
        ([], "cpu"),
        ([{"containerName": "c", "mode": "Off"}], ""),
        ([{"containerName": "*", "controlledResources": ["memory"]}], ""),
        ([{"containerName": "other", "mode": "Off"}], "cpu"),
    ],
)
def test_a_resize_that_an_autoscaler_overwrites_is_announced(policies: list[Any], warned: str) -> None:
    vpa = {"metadata": {"name": "v"}, "spec": {"resourcePolicy": {"containerPolicies": policies}}}
    words = overwrites(vpa, plan(POD, RequestedSizes("", {"cpu": "2"})))
    assert bool(words) == bool(warned) and (not warned or "vpa/v (mode Recreate) controls cpu of container c" in words)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_objects_are_printed_without_managed_fields(capsys: pytest.CaptureFixture[str], output: str) -> None:
    event = {"metadata": {"name": "e", "managedFields": [{"manager": "m"}]}, "reason": "Started"}
    print_object(output, {"name": "web", "events": [event]})
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown == {"name": "web", "events": [{"metadata": {"name": "e"}, "reason": "Started"}]}
