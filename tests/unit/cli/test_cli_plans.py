"""A resize is explained before any request is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.cli.printing.amounts import BadAmount, cpu_text, memory_text, read_amount, read_pairs
from podfit.cli.resizing.plans import CannotResize, RequestedSizes, plan


def pod(resources: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    size = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
    container = {"name": "app", "resources": size if resources is None else resources}
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "1", "generation": 1, **more.pop("metadata", {})},
        "spec": {"containers": [container, *more.pop("others", [])], "nodeName": "n1", **more.pop("spec", {})},
        "status": {"phase": "Running", **more},
    }


def test_only_what_changes_is_sent() -> None:
    made = plan(pod(), RequestedSizes(requests={"cpu": "150m", "memory": "32Mi"}))
    resources = made.patch["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "150m"}}
    assert [str(change) for change in made.changes] == ["cpu request 100m → 150m"]


def test_a_limit_that_equals_its_request_follows_it() -> None:
    guaranteed = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    made = plan(pod(guaranteed), RequestedSizes(requests={"cpu": "500m"}))
    assert made.patch["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}


def test_the_size_it_has_already_is_no_change() -> None:
    assert plan(pod(), RequestedSizes(requests={"cpu": "0.1"})).changes == ()


@pytest.mark.parametrize(
    ("given_pod", "wish", "words"),
    [
        (pod(), RequestedSizes("web", {"cpu": "1"}), "no container 'web'"),
        (pod(), RequestedSizes("ap", {"cpu": "1"}), "did you mean app?"),
        (pod(), RequestedSizes(requests={"cpu": "300m"}), "--limits cpu=300m"),
        (pod(), RequestedSizes(limits={"memory": "16Mi"}), "--memory 16Mi"),
        (pod(), RequestedSizes(requests={"cpu": "200m", "memory": "64Mi"}), "is Burstable and would become Guaranteed"),
        (pod({}), RequestedSizes(requests={"cpu": "1"}), "is BestEffort and would become Burstable"),
        (pod(others=[{"name": "b"}]), RequestedSizes(requests={"cpu": "1"}), "choose one with -c (app, b)"),
        (pod(phase="Succeeded"), RequestedSizes(requests={"cpu": "1"}), "has ended"),
        (
            pod(metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
            RequestedSizes(requests={"cpu": "1"}),
            "static pod",
        ),
        (pod(spec={"os": {"name": "windows"}}), RequestedSizes(requests={"cpu": "1"}), "Windows"),
    ],
)
def test_impossible_resizes_are_reported(given_pod: dict[str, Any], wish: RequestedSizes, words: str) -> None:
    with pytest.raises(CannotResize) as caught:
        plan(given_pod, wish)
    assert words in str(caught.value)


def test_a_terminating_pod_may_be_resized_with_a_warning() -> None:
    planned = plan(pod(metadata={"deletionTimestamp": "now"}), RequestedSizes(requests={"cpu": "110m"}))
    assert planned.changes and "the pod is terminating" in planned.warnings[0]


def test_a_restart_is_announced() -> None:
    one = pod()
    one["spec"]["containers"][0]["resizePolicy"] = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    assert plan(one, RequestedSizes(requests={"cpu": "110m"})).warnings == ()
    assert "will restart" in plan(one, RequestedSizes(requests={"memory": "40Mi"})).warnings[0]


@given(st.integers(1, 4000), st.integers(1, 4000))
def test_the_planned_pod_has_the_requested_sizes_and_nothing_else_changes(cpu: int, limit: int) -> None:
    before = pod()
    try:
        made = plan(before, RequestedSizes(requests={"cpu": f"{cpu}m"}, limits={"cpu": f"{limit}m"}))
    except CannotResize:
        assert cpu > limit
        return
    after = made.resized["spec"]["containers"][0]["resources"]
    assert (after["requests"]["memory"], after["limits"]["memory"]) == ("32Mi", "64Mi")
    for change in made.changes:
        assert after[change.kind][change.resource] == change.after
    assert before == pod()


@pytest.mark.parametrize("text", ["", "1x", "abc", "-1", "1,5", "1 Gi"])
def test_the_error_for_a_bad_quantity_has_an_example(text: str) -> None:
    with pytest.raises(BadAmount):
        read_amount(text, "--cpu")


def test_memory_without_a_unit_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(BadAmount, match="did you mean 64Mi"):
        read_amount("64", "--memory")


def test_limits_are_pairs() -> None:
    assert read_pairs("cpu=1, memory=512Mi", "--limits") == {"cpu": "1", "memory": "512Mi"}
    for bad in ("1", "disk=1Gi", "cpu:1"):
        with pytest.raises(BadAmount):
            read_pairs(bad, "--limits")


def test_cpu_is_shown_in_whole_cores_from_a_hundred_on() -> None:
    shown = [cpu_text(item) for item in (0, 0.4, 250, 1000, 12_345, 99_999, 100_000, 1_153_241)]
    assert shown == ["0", "0", "250m", "1", "12345m", "99999m", "100", "1153"]


def test_memory_is_rounded_for_people() -> None:
    shown = [memory_text(item) for item in (0, 1023, 1536, 32 << 20, int(1.5 * (1 << 30)))]
    assert shown == ["0", "1023", "1.5Ki", "32Mi", "1.5Gi"]
