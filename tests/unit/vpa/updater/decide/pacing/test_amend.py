"""Adjustments of a resize before it is sent: steps down, floors, and the free capacity of node and quota."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.quantity import Quantity
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.updater.decide.actions import Resize, resize
from podfit.vpa.updater.decide.pacing.amend import ResizeBounds, SpareRoom, amend, cut_short, eased


def pod_and_vpa(request: int, limit: int | None, wanted: int) -> tuple[Any, Any]:
    resources: dict[str, Any] = {"requests": {"cpu": f"{request}m"}}
    if limit is not None:
        resources["limits"] = {"cpu": f"{limit}m"}
    pod = {
        "metadata": {"namespace": "n", "name": "p", "annotations": {}},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }
    entry = {"containerName": "c", "target": {"cpu": f"{wanted}m"}}
    vpa = {
        "metadata": {"namespace": "n", "name": "v"},
        "spec": {},
        "status": {"recommendation": {"containerRecommendations": [entry]}},
    }
    return pod, vpa


amounts = st.integers(1, 64_000)


@given(amounts, st.none() | amounts, amounts, st.integers(0, 64_000), st.floats(0.01, 1.0))
def test_an_amended_resize_never_exceeds_the_room_and_never_falls_too_far(
    request: int, limit: int | None, wanted: int, spare: int, step: float
) -> None:
    limit = None if limit is None else max(limit, request)
    pod, vpa = pod_and_vpa(request, limit, wanted)
    action = resize(pod, vpa, 0.0)
    assert action is not None
    amended = amend(action, SpareRoom({"cpu": spare}, {}, "node n1"), ResizeBounds(step), {})
    if isinstance(amended, Wait):
        assert wanted > request and "cpu" in amended.message
        return
    if amended is None:
        assert wanted == request or (wanted < request and int(request * (1 - step)) >= request)
        return
    made = amended.changes
    cpu = made[0, "requests", "cpu"].milli
    assert cpu - request <= spare
    assert cpu >= min(request, int(request * (1 - step)))
    assert min(request, wanted) <= cpu <= max(request, wanted)
    if (0, "limits", "cpu") in made:
        assert made[0, "limits", "cpu"].milli >= cpu


@given(amounts, amounts, amounts, st.integers(0, 64_000), st.floats(0.01, 1.0))
def test_a_vm_is_only_ever_resized_to_whole_vcpus_that_hold_its_request(
    request: int, vcpus: int, wanted: int, spare: int, step: float
) -> None:
    limit = -(-max(vcpus, request) // 1000) * 1000
    pod, vpa = pod_and_vpa(request, limit, wanted)
    pod["spec"]["runtimeClassName"] = "vm"
    amended = _amended(pod, vpa, spare, step)
    if amended is None:
        return
    cpu, whole = amended.get((0, "requests", "cpu")), amended.get((0, "limits", "cpu"))
    made = whole.milli if whole is not None else limit
    assert made % 1000 == 0 and made >= (cpu.milli if cpu is not None else request)
    assert cpu is None or cpu.milli - request <= spare


@given(st.integers(1, 64), amounts, st.integers(0, 64_000), st.floats(0.01, 1.0))
def test_a_vm_whose_request_is_its_limit_stays_so(vcpus: int, wanted: int, spare: int, step: float) -> None:
    pod, vpa = pod_and_vpa(vcpus * 1000, vcpus * 1000, wanted)
    pod["spec"]["virtualMachine"] = {"name": "c"}
    amended = _amended(pod, vpa, spare, step)
    if amended is None:
        return
    size = amended[0, "requests", "cpu"].milli
    assert size == amended[0, "limits", "cpu"].milli and size % 1000 == 0
    assert size <= vcpus * 1000 + spare


def _amended(pod: Any, vpa: Any, spare: int, step: float) -> Any:
    """The changes; None if there are none."""
    action = resize(pod, vpa, 0.0)
    if action is None:
        return None
    amended = amend(action, SpareRoom({"cpu": spare}, {}, "node n1"), ResizeBounds(step), {})
    return None if amended is None or isinstance(amended, Wait) else amended.changes


def test_small_changes_of_a_request_do_not_let_the_limit_of_a_vm_creep_upwards() -> None:
    request, limit = 300, 1000
    for wanted in (310, 300, 320, 300, 330, 300):
        pod, vpa = pod_and_vpa(request, limit, wanted)
        pod["spec"]["runtimeClassName"] = "vm"
        changes = _amended(pod, vpa, 64_000, 1.0)
        request = changes[0, "requests", "cpu"].milli
        limit = changes[0, "limits", "cpu"].milli if (0, "limits", "cpu") in changes else limit
    assert (request, limit) == (300, 1000)


def test_a_resize_is_not_cut_below_the_lower_bound() -> None:
    pod, vpa = pod_and_vpa(100, None, 1000)
    action = resize(pod, vpa, 0.0)
    assert action is not None
    waiting = amend(action, SpareRoom({"cpu": 300}, {}, "node n1"), ResizeBounds(), {("c", "cpu"): 500})
    assert waiting == Wait(
        "NoRoom", "node n1 has 300m of cpu left, 900m more are needed: it is resized when enough is free"
    )
    cut = amend(action, SpareRoom({"cpu": 300}, {}, "node n1"), ResizeBounds(), {("c", "cpu"): 300})
    assert not isinstance(cut, Wait) and cut is not None
    assert cut.changes[0, "requests", "cpu"] == Quantity.parse("400m")


def test_the_quota_counts_like_the_node() -> None:
    pod, vpa = pod_and_vpa(100, 100, 1000)
    action = resize(pod, vpa, 0.0)
    assert action is not None
    waiting = amend(action, SpareRoom({"cpu": 5000}, {"limits.cpu": 200}, "node n1"), ResizeBounds(), {})
    assert isinstance(waiting, Wait) and waiting.reason == "QuotaExceeded"


def test_an_undo_keeps_a_floor() -> None:
    pod, vpa = pod_and_vpa(1000, None, 100)
    action = resize(pod, vpa, 0.0)
    assert action is not None
    assert amend(action, SpareRoom(), ResizeBounds(1.0, {("c", "cpu"): 1000}), {}) is None


def asked(request: int, wanted: int) -> Resize:
    action = resize(*pod_and_vpa(request, None, wanted), 0.0)
    assert action is not None
    return action


@pytest.mark.parametrize(
    ("room", "words"),
    [(SpareRoom({"cpu": 300}, {}, "node n1"), "container c gets 400m of cpu instead of 1"), (SpareRoom(), "")],
)
def test_reductions_are_named(room: SpareRoom, words: str) -> None:
    action = asked(100, 1000)
    sent = amend(action, room, ResizeBounds(), {})
    assert isinstance(sent, Resize) and cut_short(action, sent) == words


def test_a_step_down_that_is_not_the_whole_way_is_eased() -> None:
    action = asked(1000, 100)
    for step, partly in ((0.5, True), (1.0, False)):
        sent = amend(action, SpareRoom(), ResizeBounds(step), {})
        assert isinstance(sent, Resize) and eased(action, sent) is partly


def test_a_resize_that_was_already_requested_waits() -> None:
    pod, vpa = pod_and_vpa(500, None, 500)
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100m"}
    action = resize(pod, vpa, 0.0)
    assert action is not None
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "500m"}
    pod["status"] = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]}
    waiting = amend(action, SpareRoom(), ResizeBounds(), {})
    assert isinstance(waiting, Wait) and waiting.reason == "ResizeUnderWay"
