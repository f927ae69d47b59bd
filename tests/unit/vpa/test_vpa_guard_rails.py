"""The updater's guard rails, decision by decision."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.quantity import Quantity
from podfit.kit.clock import FakeClock
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.changing.windows import BadWindow, open_now
from podfit.vpa.serve.bucket import Bucket
from podfit.vpa.updater.decide.actions import resize
from podfit.vpa.updater.decide.pacing.amend import Rails, Room, amend
from podfit.vpa.updater.decide.pacing.steady import Steady


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("windows", "when", "holds"),
    [
        ("", "2024-01-01T12:00", True),
        ("Mon 10:00-14:00", "2024-01-01T12:00", True),
        ("Mon 10:00-14:00", "2024-01-01T14:00", False),
        ("Mon 10:00-14:00", "2024-01-02T12:00", False),
        ("Mon-Fri 22:00-04:00", "2024-01-06T03:59", True),
        ("Mon-Fri 22:00-04:00", "2024-01-06T22:30", False),
        ("Sat-Mon 00:00-24:00", "2024-01-07T05:00", True),
        ("mon,wed 01:00-02:00; * 05:00-06:00", "2024-01-02T05:30", True),
    ],
)
def test_maintenance_windows(windows: str, when: str, holds: bool) -> None:
    assert open_now(windows, at(when)) is holds


@pytest.mark.parametrize("text", ["Mon", "Xyz 10:00-11:00", "Mon 25:00-26:00", "Mon 10:00-10:00", "10-11"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(BadWindow):
        open_now(text, 0.0)


def test_targets_rise_at_once_and_fall_after_the_delay() -> None:
    steady = Steady(300)

    def target(cpu: str, now: float) -> Any:
        entry = {"containerName": "c", "target": {"cpu": cpu}}
        vpa = {
            "metadata": {"namespace": "n", "name": "v"},
            "status": {"recommendation": {"containerRecommendations": [entry]}},
        }
        settled: Any = steady.settle(vpa, now)
        return settled["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"]

    assert target("100m", 0) == "100m"
    assert target("500m", 60) == "500m"
    assert target("200m", 120) == "500m"
    assert target("200m", 360) == "500m"
    assert target("200m", 421) == "200m"


def test_a_bucket_refills_with_time() -> None:
    clock = FakeClock()
    bucket = Bucket(0.05, 3, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock._mono += 40
    assert [bucket.take() for _ in range(3)] == [True, True, False]


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
    amended = amend(action, Room({"cpu": spare}, {}, "node n1"), Rails(step), {})
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
    """What is changed; None where nothing is."""
    action = resize(pod, vpa, 0.0)
    if action is None:
        return None
    amended = amend(action, Room({"cpu": spare}, {}, "node n1"), Rails(step), {})
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
    waiting = amend(action, Room({"cpu": 300}, {}, "node n1"), Rails(), {("c", "cpu"): 500})
    assert waiting == Wait(
        "NoRoom", "node n1 has 300m of cpu left, 900m more are needed: it is resized when there is more room"
    )
    cut = amend(action, Room({"cpu": 300}, {}, "node n1"), Rails(), {("c", "cpu"): 300})
    assert not isinstance(cut, Wait) and cut is not None
    assert cut.changes[0, "requests", "cpu"] == Quantity.parse("400m")


def test_the_quota_counts_like_the_node() -> None:
    pod, vpa = pod_and_vpa(100, 100, 1000)
    action = resize(pod, vpa, 0.0)
    assert action is not None
    waiting = amend(action, Room({"cpu": 5000}, {"limits.cpu": 200}, "node n1"), Rails(), {})
    assert isinstance(waiting, Wait) and waiting.reason == "QuotaExceeded"


def test_an_undo_keeps_a_floor() -> None:
    pod, vpa = pod_and_vpa(1000, None, 100)
    action = resize(pod, vpa, 0.0)
    assert action is not None
    assert amend(action, Room(), Rails(1.0, {("c", "cpu"): 1000}), {}) is None
