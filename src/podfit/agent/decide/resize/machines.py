"""The possible sizes of a virtual machine: whole vCPUs, within the maxima fixed when it was defined."""

from __future__ import annotations

from collections.abc import Mapping

from podfit.agent.runtimes.values import RUNNING, Machine, PodState
from podfit.api.pods.machines import (
    CARRIED,
    LARGEST_DEVICE_MIB,
    LEAST_MEMORY_MIB,
    MAX_MEMORY,
    MAX_VCPUS,
    SHUTDOWN,
    SLOTS,
)
from podfit.api.resize.states import CPU, MEMORY, Allocated, Desired, amount

FRACTION, BEYOND = "fraction_of_vcpu", "beyond_vm_maximum"
_MIB = 1 << 20


def machines_of(state: PodState | None) -> dict[str, Machine]:
    """The running virtual machines of a pod, by container."""
    if state is None:
        return {}
    return {
        container.name: container.machine
        for container in state.containers
        if container.machine is not None and container.state == RUNNING
    }


def impossible(desired: Desired, allocated: Allocated, machines: Mapping[str, Machine]) -> tuple[str, str] | None:
    """The reason why a virtual machine cannot be resized to its new limits, and the metric's label value for that
    reason."""
    for name, resources in desired.containers.items():
        cpu, memory = amount(resources, CPU).limit or 0, amount(resources, MEMORY).limit or 0
        before = allocated.containers.get(name)
        machine = machines.get(name)
        if cpu != (amount(before, CPU).limit or 0) and (why := _cpu(name, cpu, machine)) is not None:
            return why
        if machine is None or memory == (amount(before, MEMORY).limit or 0):
            continue
        if (message := _memory(-(-memory // _MIB), machine)) is not None:
            return BEYOND, f'container "{name}": {message}'
    return None


def _cpu(name: str, milli: int, machine: Machine | None) -> tuple[str, str] | None:
    if milli % 1000:
        choice = f"{milli // 1000 or 1} or {milli // 1000 + 1}" if milli > 1000 else "1"
        return FRACTION, (
            f'a VM can only have whole vCPUs: container "{name}" has a CPU limit of {milli}m; set it to {choice}'
        )
    if machine is not None and machine.power != SHUTDOWN and machine.max_vcpus and milli > machine.max_vcpus * 1000:
        return BEYOND, (
            f'container "{name}": {milli // 1000} vCPUs are more than the {machine.max_vcpus} its VM was defined for; '
            f"set the pod annotation {MAX_VCPUS} and recreate the pod"
        )
    return None


def _memory(mib: int, machine: Machine) -> str | None:
    """The reason why the VM cannot have this much memory; None if it can, or without a limit, when the VM keeps its
    memory. A VM that is shut down is redefined."""
    if 0 < mib < LEAST_MEMORY_MIB:
        return f"a memory limit of {mib} MiB is too small for a VM; the minimum is {LEAST_MEMORY_MIB} MiB"
    if machine.power == SHUTDOWN:
        return None
    if machine.max_memory_mib and mib > machine.max_memory_mib:
        return (
            f"{mib} MiB are more than the {machine.max_memory_mib} MiB its VM was defined for; set the pod annotation "
            f"{MAX_MEMORY} (at most {CARRIED} times the memory it starts with) and recreate the pod"
        )
    reached = machine.boot_memory_mib + machine.slots * LARGEST_DEVICE_MIB
    if machine.slots and mib > reached:
        return (
            f"{mib} MiB need more memory devices than the {machine.slots} slots of its VM hold, which reach {reached} "
            f"MiB; set the pod annotation {SLOTS} and recreate the pod"
        )
    return None
