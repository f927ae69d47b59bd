"""Virtual machines as pods: their annotations, power states, and limits of their size.

Nodes pass a pod's annotations to the runtime, so that a VM runtime gets these in addition to CRI's own fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLASS = "vm"
"""The RuntimeClass of VMs, created by `podfit up --vm`."""
PREFIX = "podfit.dev/vm-"
CMDLINE, FIRMWARE, CELLS, NODE = PREFIX + "cmdline", PREFIX + "firmware", PREFIX + "numa-cells", PREFIX + "numa-node"
MAX_MEMORY, MAX_VCPUS, SLOTS = PREFIX + "max-memory", PREFIX + "max-vcpus", PREFIX + "slots"
DEVICE = PREFIX + "memory"
USER_DATA, USER_DATA_BASE64 = PREFIX + "user-data", PREFIX + "user-data-base64"
SSH_KEYS = PREFIX + "ssh-keys"
BOOT_DEVICE = PREFIX + "boot-device"
"""The path of the block volume that the VM boots from."""
TOKEN = PREFIX + "service-account-token"
""""true": the guest mounts the token of its service account."""
POWER, POWER_GRACE = PREFIX + "power", PREFIX + "power-grace-seconds"

RUNNING, PAUSED, SUSPENDED, SHUTDOWN = "Running", "Paused", "Suspended", "Shutdown"
POWERS = (RUNNING, PAUSED, SUSPENDED, SHUTDOWN)
"""Paused: the vCPUs are stopped. Suspended: memory is saved to disk and QEMU has exited. Shutdown: off, with its disks.
"""
OFF = (SUSPENDED, SHUTDOWN)


def wanted_power(pod: Mapping[str, Any]) -> str:
    """The requested power state, as `spec.virtualMachine.powerSpec` or as an annotation."""
    machine = pod["spec"].get("virtualMachine") or {}
    annotated = (pod["metadata"].get("annotations") or {}).get(POWER)
    found = machine.get("powerSpec") if machine else annotated
    return str(found or RUNNING)


def ends_when_shut_down(spec: Mapping[str, Any]) -> bool:
    """Whether a guest that shuts itself down ends its pod, regardless of its restart policy."""
    return (spec.get("virtualMachine") or {}).get("shutdownBehavior") == "terminate"


LEAST_MEMORY_MIB = 64
"""Current Linux kernels do not boot with less."""
CARRIED = 16
"""The maximum memory as a multiple of boot memory: page tables for plugged memory are allocated from it."""
VCPU_MIB = 2
"""The boot memory that a VM must have for each vCPU of its maximum: a Linux guest allocates 0.6 MiB for it at boot."""
CELL_MIB = 8
"""The least boot memory of a NUMA cell. Linux accepts cells of 4 MiB, but then panics at boot."""
LARGEST_DEVICE_MIB = 2048
