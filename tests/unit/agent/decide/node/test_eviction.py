"""Eviction thresholds, the order of evictions under memory pressure, their messages, and which pods are not
admitted.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.decide.node import eviction
from podfit.agent.decide.node.eviction import Consumer
from podfit.agent.decide.node.pressure import CrossedThreshold, Readings, crossed, shown_by
from podfit.agent.decide.node.thresholds import DEFAULTS, DISK, MEMORY, PID, BadThreshold, Threshold, parse

MI, GI = 1 << 20, 1 << 30


# --- the flag -------------------------------------------------------------------------------------------------------


def test_the_flag_is_read_as_kubelets_read_it() -> None:
    assert parse("memory.available<1.5Gi,nodefs.available<10%, pid.available<100") == (
        Threshold("memory.available", quantity=3 * GI // 2),
        Threshold("nodefs.available", share=0.1),
        Threshold("pid.available", quantity=100),
    )


def test_unlisted_signals_have_no_threshold() -> None:
    assert parse("") == ()
    assert parse("memory.available<0%,nodefs.available<100%") == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("memory.available", "malformed pair, expect string<string"),
        ("memory.free<1Gi", "unsupported eviction signal memory.free"),
        ("memory.available<0", "eviction threshold memory.available must be positive: 0"),
        ("memory.available<-5Mi", "must be positive"),
        ("nodefs.available<-1%", "eviction percentage threshold nodefs.available must be >= 0%: -1%"),
        ("nodefs.available<101%", "eviction percentage threshold nodefs.available must be <= 100%: 101%"),
        ("nodefs.available<x%", 'strconv.ParseFloat: parsing "x": invalid syntax'),
        ("memory.available<much", "quantities must match the regular expression"),
    ],
)
def test_nonsense_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadThreshold) as refused:
        parse(text)
    assert why in str(refused.value)


@given(st.text(alphabet="memory.availbl<,%0123456789GiM-", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert all(item.least(GI) >= 0 for item in parse(text))
    except BadThreshold as refusal:
        assert str(refusal)


@pytest.mark.parametrize("text", ["memory.available<100Mi", "nodefs.inodesFree<5%", "imagefs.available<12.5%"])
def test_a_threshold_can_be_written_as_it_was_read(text: str) -> None:
    (one,) = parse(text)
    assert f"{one.signal}<{one.text}" == text


# --- readings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flag", "readings", "shown"),
    [
        ("memory.available<10%", Readings(memory_free=GI, memory_size=10 * GI), set()),
        ("memory.available<10%", Readings(memory_free=GI - 1, memory_size=10 * GI), {MEMORY}),
        ("nodefs.available<50Gi", Readings(disk_free=40 * GI, disk_size=1000 * GI), {DISK}),
        ("imagefs.available<50Gi", Readings(disk_free=40 * GI, disk_size=1000 * GI), {DISK}),
        ("nodefs.inodesFree<5%", Readings(inodes_free=4, inodes_size=100), {DISK}),
        ("nodefs.inodesFree<5%", Readings(inodes_free=None), set()),
        ("pid.available<10", Readings(pids_used=95, pids_most=100), {PID}),
        ("", Readings(memory_free=0, disk_free=0, disk_size=GI), set()),
    ],
)
def test_a_signal_is_compared_with_its_threshold(flag: str, readings: Readings, shown: set[str]) -> None:
    assert shown_by(readings, parse(flag)) == shown


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_threshold_is_crossed_only_below_it(free: int, least: int) -> None:
    met = crossed(Readings(memory_free=free), [Threshold("memory.available", quantity=least)])
    assert met == (
        [CrossedThreshold(Threshold("memory.available", quantity=least), least, free)] if free < least else []
    )


# --- who goes -------------------------------------------------------------------------------------------------------


def consumer(name: str, used: int | None, request: str = "", priority: int = 0, **more: Any) -> Consumer:
    resources = {"requests": {"memory": request}} if request else {}
    spec = {"priority": priority, "containers": [{"name": "c", "resources": resources}], **more}
    pod = {"metadata": {"name": name, "uid": name}, "spec": spec}
    return Consumer(name, pod, used, {"c": used} if used is not None else {})


def order(*consumers: Consumer) -> list[str]:
    """Removes the victims one by one."""
    left, gone = list(consumers), []
    while (chosen := eviction.victim(left)) is not None:
        gone.append(chosen.uid)
        left.remove(chosen)
    return gone


def test_over_its_request_goes_before_priority_before_size() -> None:
    assert order(
        consumer("modest", 90 * MI, "100Mi"),
        consumer("over-important", 900 * MI, "100Mi", priority=10),
        consumer("over-small", 150 * MI, "100Mi"),
        consumer("over-large", 300 * MI, "100Mi"),
        consumer("best-effort", 250 * MI),
        consumer("modest-large", 900 * MI, "1Gi"),
        consumer("unknown", None, "1Gi", priority=100),
    ) == ["unknown", "best-effort", "over-large", "over-small", "over-important", "modest", "modest-large"]


def test_critical_pods_stay_whatever_they_use() -> None:
    critical = consumer("critical", 900 * MI, priority=2_000_000_000)
    static = consumer("static", 900 * MI)
    static.pod["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}  # type: ignore[index]
    assert order(critical, static, consumer("small", MI, "100Mi")) == ["small"]
    assert eviction.victim([critical, static]) is None


@given(st.lists(st.tuples(st.integers(0, 1 << 32), st.integers(1, 1 << 32), st.integers(-5, 5)), max_size=8))
def test_pods_within_their_requests_are_evicted_last(pods: list[tuple[int, int, int]]) -> None:
    made = [consumer(str(at), used, str(request), priority) for at, (used, request, priority) in enumerate(pods)]
    within = [next(item for item in made if item.uid == uid) for uid in order(*made)]
    flags = [(item.used or 0) <= item.requested for item in within]
    assert flags == sorted(flags) and len(flags) == len(made)


# --- words ----------------------------------------------------------------------------------------------------------


MET = CrossedThreshold(DEFAULTS[0], 100 * MI, 84532 << 10)


def test_the_message_has_the_threshold_and_the_containers_above_their_requests() -> None:
    one = consumer("web", 2 * GI)
    assert eviction.message(MET, one) == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 84532Ki. "
        "Container c was using 2Gi, request is 0, has larger consumption of memory. "
    )
    assert eviction.message(MET, consumer("web", GI, "1Gi")).endswith("available: 84532Ki. ")


def test_a_pod_with_a_size_of_its_own_is_named_too() -> None:
    one = consumer("web", 2 * GI, resources={"requests": {"memory": "1Gi"}})
    assert "Pod web was using 2Gi, request is 1Gi, has larger consumption of memory. " in eviction.message(MET, one)


# --- who is let in --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("qos", "pressed", "more", "refused"),
    [
        ("BestEffort", set(), {}, None),
        ("BestEffort", {MEMORY}, {}, "[MemoryPressure]"),
        ("Burstable", {MEMORY}, {}, None),
        ("Guaranteed", {MEMORY, DISK}, {}, "[MemoryPressure DiskPressure]"),
        ("BestEffort", {MEMORY}, {"tolerations": [{"operator": "Exists"}]}, None),
        ("Burstable", {DISK}, {"tolerations": [{"operator": "Exists"}]}, "[DiskPressure]"),
        ("BestEffort", {DISK, PID}, {"priority": 2_000_000_000}, None),
    ],
)
def test_a_node_under_pressure_is_choosy(qos: str, pressed: set[str], more: Any, refused: str | None) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [], **more}}
    expected = ("Evicted", f"The node had condition: {refused}. ") if refused else None
    assert eviction.refusal(pod, qos, frozenset(pressed)) == expected
