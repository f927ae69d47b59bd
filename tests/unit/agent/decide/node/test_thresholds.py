"""Eviction thresholds as kubelets read them."""

from __future__ import annotations

import pytest

from podfit.agent.decide.node.thresholds import DISK, MEMORY, PID, BadThreshold, Threshold, parse


def test_amounts_and_shares_are_read() -> None:
    memory, disk = parse("memory.available<100Mi, nodefs.available<10%,")
    assert memory == Threshold("memory.available", quantity=100 << 20)
    assert disk.signal == "nodefs.available" and disk.least(1000) == 100
    assert (memory.text, disk.text) == ("100Mi", "10%")


def test_a_share_is_capped_by_its_most_and_an_amount_never_is() -> None:
    assert Threshold("nodefs.available", share=0.1, at_most=50).least(1000) == 50
    assert Threshold("nodefs.available", quantity=70, at_most=50).least(1000) == 70


def test_the_last_of_two_thresholds_of_a_signal_counts() -> None:
    assert parse("pid.available<5,pid.available<7") == (Threshold("pid.available", quantity=7),)


@pytest.mark.parametrize("value", ["0%", "100%"])
def test_none_and_all_switch_a_threshold_off(value: str) -> None:
    assert parse(f"memory.available<{value}") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory.available", "malformed pair, expect string<string: memory.available"),
        ("cpu.available<1", "unsupported eviction signal cpu.available"),
        ("memory.available<0", "eviction threshold memory.available must be positive: 0"),
        ("memory.available<-5%", "eviction percentage threshold memory.available must be >= 0%: -5%"),
        ("memory.available<101%", "eviction percentage threshold memory.available must be <= 100%: 101%"),
        ("memory.available<x%", 'strconv.ParseFloat: parsing "x": invalid syntax'),
        ("memory.available<lots", "quantities must match"),
    ],
)
def test_pods_that_a_kubelet_rejects_are_rejected_with_its_message(text: str, message: str) -> None:
    with pytest.raises(BadThreshold) as raised:
        parse(text)
    assert message in str(raised.value)


def test_signals_belong_to_their_conditions() -> None:
    listed = "allocatableMemory.available<1,imagefs.inodesFree<1,containerfs.available<1,pid.available<1"
    assert [threshold.condition for threshold in parse(listed)] == [MEMORY, DISK, DISK, PID]
