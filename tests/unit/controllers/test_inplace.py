"""Resizing a workload's pods in place: comparing templates and deciding the next steps."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.controllers.workloads.inplace import Mark, Replace, ResizePod, decide
from podfit.controllers.workloads.sizes import (
    SIZED_FOR,
    differ_in_size_only,
    is_resized,
    is_up_to_date,
    size_mark,
    size_patch,
)

NOW = 1_700_000_000.0


def template(cpu: str = "100m", image: str = "web:1", **more: str) -> dict[str, Any]:
    requests = {"cpu": cpu, **more}
    return {
        "metadata": {"labels": {"app": "w"}},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": requests}}]},
    }


def pod(name: str, cpu: str, conditions: list[dict[str, Any]] | None = None, ready: bool = True) -> dict[str, Any]:
    status: dict[str, Any] = {"observedGeneration": 1, "conditions": [*(conditions or [])]}
    if ready:
        status["conditions"].append({"type": "Ready", "status": "True"})
    return {
        "metadata": {"name": name, "namespace": "d", "uid": name, "generation": 1},
        "spec": {**template(cpu)["spec"], "nodeName": "n"},
        "status": status,
    }


def deferred(since: str) -> dict[str, Any]:
    return {
        "type": "PodResizePending",
        "status": "True",
        "reason": "Deferred",
        "message": "no room",
        "lastTransitionTime": since,
    }


def test_templates_that_differ_in_cpu_only_can_be_resized() -> None:
    assert differ_in_size_only(template("100m"), template("2"))
    assert not differ_in_size_only(template("100m"), template("100m", image="web:2"))
    assert not differ_in_size_only(template("100m"), template("100m", **{"ephemeral-storage": "1Gi"}))


def test_the_patch_names_only_what_changes() -> None:
    assert size_patch(pod("p", "0.1"), template("100m")) is None
    wanted = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    assert size_patch(pod("p", "100m"), template("1")) == wanted


def test_a_pod_that_already_has_the_size_is_skipped() -> None:
    changed = pod("p", "150m")
    changed["metadata"]["annotations"] = {SIZED_FOR: size_mark(template("0.1"))}
    assert size_patch(changed, template("100m")) is None
    assert size_patch(changed, template("200m")) is not None


def test_a_resize_that_was_not_written_down_is_written_down() -> None:
    done = pod("p", "200m")
    done["metadata"]["annotations"] = {SIZED_FOR: size_mark(template("100m"))}
    plan = decide([done], template("200m"), 1, 300, NOW)
    assert plan.steps == (Mark(done, size_mark(template("200m"))),) and plan.done == 1


def test_only_a_batch_is_resized_at_a_time() -> None:
    pods = [pod(f"p{number}", "100m") for number in range(5)]
    plan = decide(pods, template("200m"), 2, 300, NOW)
    assert [step.pod["metadata"]["name"] for step in plan.steps] == ["p0", "p1"]
    assert all(isinstance(step, ResizePod) for step in plan.steps)


def test_a_pod_being_created_counts_in_the_batch() -> None:
    moving = pod("p0", "200m", [{"type": "PodResizeInProgress", "status": "True"}])
    plan = decide([moving, pod("p1", "100m")], template("200m"), 1, 300, NOW)
    assert plan.steps == () and plan.waiting == 2


def test_a_deferred_resize_is_abandoned_only_after_the_deadline() -> None:
    waiting = pod("p0", "200m", [deferred("2023-11-14T22:13:00Z")])
    early = decide([waiting], template("200m"), 1, 300, NOW)
    assert early.steps == () and 0 < early.look_again_s <= 300
    late = decide([waiting], template("200m"), 1, 10, NOW)
    assert isinstance(late.steps[0], Replace) and "no room" in late.steps[0].why


def test_pods_that_are_not_ready_are_resized_first() -> None:
    plan = decide([pod("a", "100m"), pod("b", "100m", ready=False)], template("200m"), 1, 300, NOW)
    assert [step.pod["metadata"]["name"] for step in plan.steps] == ["b"]


@given(st.lists(st.sampled_from(["100m", "200m"]), max_size=8), st.integers(1, 4))
def test_following_the_plan_ends_with_every_pod_resized_and_no_batch_too_large(sizes: list[str], batch: int) -> None:
    pods = [pod(f"p{number}", size) for number, size in enumerate(sizes)]
    for _ in range(len(pods) + 1):
        plan = decide(pods, template("200m"), batch, 300, NOW)
        assert len(plan.steps) <= batch
        for step in plan.steps:
            step.pod["spec"]["containers"] = copy.deepcopy(template("200m")["spec"]["containers"])
    assert decide(pods, template("200m"), batch, 300, NOW).done == len(pods)


# --- in force


def running(name: str, cpu: str, shown: str, limit: str = "") -> dict[str, Any]:
    """A pod of generation 2 that its agent has observed; `shown` is the size in its status."""
    made = pod(name, cpu)
    made["metadata"]["generation"] = made["status"]["observedGeneration"] = 2
    reported: dict[str, Any] = {"name": "c", "state": {"running": {}}, "allocatedResources": {"cpu": shown}}
    reported["resources"] = {"requests": {"cpu": shown}, **({"limits": {"cpu": limit}} if limit else {})}
    if limit:
        made["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    made["status"]["containerStatuses"] = [reported]
    return made


def test_a_resize_is_in_force_only_when_the_status_shows_it() -> None:
    assert is_resized(running("p", "200m", "200m"), template("200m"))
    assert not is_resized(running("p", "200m", "100m"), template("200m"))
    assert not is_resized(running("p", "200m", "200m", limit="500m"), template("200m"))


def test_a_limit_that_the_kernel_rounded_is_in_force() -> None:
    assert is_resized(running("p", "200m", "200m", limit="995m"), template("200m"))


def test_a_resize_the_agent_has_not_seen_is_not_in_force() -> None:
    unseen = running("p", "200m", "200m")
    unseen["metadata"]["generation"] = 3
    assert not is_resized(unseen, template("200m")) and not is_up_to_date(unseen, template("200m"))


def test_a_new_pod_counts_as_updated_before_its_agent_has_seen_it() -> None:
    new = pod("p", "200m", ready=False)
    new["status"] = {}
    assert is_up_to_date(new, template("200m")) and not is_up_to_date(new, template("300m"))


def test_a_resize_cannot_take_a_limit_away() -> None:
    limited = template("100m")
    limited["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    assert differ_in_size_only(template("100m"), limited) and not differ_in_size_only(limited, template("100m"))


def test_a_missing_request_defaults_to_the_limit() -> None:
    alone = template()
    alone["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    guaranteed = pod("p", "1")
    guaranteed["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    change = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    assert size_patch(guaranteed, alone) == {"spec": {"containers": [{"name": "c", "resources": change}]}}


def test_a_pod_that_is_down_takes_the_place_of_one_that_may_be_missed() -> None:
    down, serving = pod("p0", "200m", ready=False), pod("p1", "100m")
    assert decide([down, serving], template("200m"), 1, 300, NOW).steps == ()
    assert len(decide([down, serving], template("200m"), 2, 300, NOW).steps) == 1


def test_a_pod_that_waits_for_room_does_not_hold_up_those_that_would_free_it() -> None:
    unplaced, serving = pod("p0", "50m", ready=False), pod("p1", "100m")
    del unplaced["spec"]["nodeName"]
    assert [step.pod for step in decide([unplaced, serving], template("50m"), 1, 300, NOW).steps] == [serving]
