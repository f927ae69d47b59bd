"""Conversion between a VM's size and CRI's limits."""

from __future__ import annotations

import pytest

from podfit.vm.decide.refusals import Invalid
from podfit.vm.decide.sizes import MIB, Limits, Size, actual_limits, memory_of, size_of, vcpus_of


def test_a_container_without_limits_gets_the_default_size() -> None:
    assert size_of(Limits()) == Size(1, 512)
    assert str(size_of(Limits())) == "1 vCPU and 512 MiB"


def test_memory_is_rounded_up_to_whole_mib() -> None:
    assert memory_of(Limits(memory_bytes=256 * MIB)) == 256
    assert memory_of(Limits(memory_bytes=256 * MIB + 1)) == 257


def test_a_vm_that_is_too_small_to_boot_is_refused() -> None:
    with pytest.raises(Invalid, match="1 MiB is too small for a VM"):
        memory_of(Limits(memory_bytes=MIB))


@pytest.mark.parametrize(("quota", "period", "vcpus"), [(200_000, 0, 2), (300_000, 100_000, 3), (50_000, 50_000, 1)])
def test_vcpus_are_quota_by_period(quota: int, period: int, vcpus: int) -> None:
    assert vcpus_of(Limits(cpu_quota=quota, cpu_period=period)) == vcpus


def test_a_fraction_of_a_vcpu_is_refused_with_its_neighbours() -> None:
    with pytest.raises(Invalid, match=r"a CPU limit of 1500m is not possible; set it to 1 or 2"):
        vcpus_of(Limits(cpu_quota=150_000, cpu_period=100_000))


def test_an_update_keeps_what_it_leaves_unset() -> None:
    old = Limits(cpu_period=100_000, cpu_quota=100_000, cpu_shares=512, memory_bytes=1 << 30, cpuset_cpus="0")
    newer = old.updated(Limits(cpu_quota=200_000))
    assert newer == Limits(cpu_period=100_000, cpu_quota=200_000, cpu_shares=512, memory_bytes=1 << 30, cpuset_cpus="0")


def test_a_guest_being_resized_reports_its_current_size() -> None:
    limits = Limits(cpu_period=100_000, cpu_quota=400_000, memory_bytes=1024 * MIB)
    actual = actual_limits(limits, Size(2, 512))
    assert (actual.cpu_quota, actual.memory_bytes) == (200_000, 512 * MIB)
    assert actual_limits(limits, Size(4, 1024)) == limits
