"""A VM's size, and its conversion from and to CRI's resources.

CRI carries limits only: the guest gets the limit, the scheduler counts the request.
"""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.pods.machines import LEAST_MEMORY_MIB
from podfit.vm.decide.refusals import Invalid

MIB = 1 << 20
DEFAULT_PERIOD_US = 100_000
DEFAULT_VCPUS, DEFAULT_MEMORY_MIB = 1, 512
"""For a container without limits."""


@dataclass(frozen=True)
class Size:
    vcpus: int
    memory_mib: int

    def __str__(self) -> str:
        return f"{self.vcpus} vCPU{'s' if self.vcpus != 1 else ''} and {self.memory_mib} MiB"


@dataclass(frozen=True)
class Limits:
    """The fields of CRI's LinuxContainerResources: 0 and "" mean that the field is unset."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_bytes: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""

    def updated(self, newer: Limits) -> Limits:
        """Fields that are unset in the newer limits keep their values, as in every runtime."""
        period = newer.cpu_period or self.cpu_period
        return Limits(
            cpu_period=period,
            cpu_quota=newer.cpu_quota or self.cpu_quota,
            cpu_shares=newer.cpu_shares or self.cpu_shares,
            memory_bytes=newer.memory_bytes or self.memory_bytes,
            cpuset_cpus=newer.cpuset_cpus or self.cpuset_cpus,
            cpuset_mems=newer.cpuset_mems or self.cpuset_mems,
        )


def size_of(limits: Limits) -> Size:
    """Raises Invalid for a size that no VM can have."""
    return Size(vcpus_of(limits), memory_of(limits))


def vcpus_of(limits: Limits) -> int:
    if limits.cpu_quota <= 0:
        return DEFAULT_VCPUS
    period = limits.cpu_period or DEFAULT_PERIOD_US
    if limits.cpu_quota % period:
        milli = limits.cpu_quota * 1000 // period
        raise Invalid(
            f"a VM can only have whole vCPUs: a CPU limit of {milli}m is not possible; "
            f"set it to {milli // 1000 or 1} or {milli // 1000 + 1}"
        )
    return limits.cpu_quota // period


def memory_of(limits: Limits) -> int:
    """The memory in MiB, rounded up: a guest never has less than its limit."""
    if limits.memory_bytes <= 0:
        return DEFAULT_MEMORY_MIB
    memory = -(-limits.memory_bytes // MIB)
    if memory < LEAST_MEMORY_MIB:
        raise Invalid(f"a memory limit of {memory} MiB is too small for a VM; the minimum is {LEAST_MEMORY_MIB} MiB")
    return memory


def actual_limits(limits: Limits, actual: Size) -> Limits:
    """The limits in force in the guest: the configured ones, if the guest's size matches them."""
    period = limits.cpu_period or DEFAULT_PERIOD_US
    quota = actual.vcpus * period if limits.cpu_quota > 0 else limits.cpu_quota
    same = limits.memory_bytes <= 0 or memory_of(limits) == actual.memory_mib
    return Limits(
        cpu_period=limits.cpu_period,
        cpu_quota=quota,
        cpu_shares=limits.cpu_shares,
        memory_bytes=limits.memory_bytes if same else actual.memory_mib * MIB,
        cpuset_cpus=limits.cpuset_cpus,
        cpuset_mems=limits.cpuset_mems,
    )
