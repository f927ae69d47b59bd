"""Virtual machines as pods: the annotations that describe one, the power states, and the bounds of its size.

Nodes pass a pod's annotations to the runtime, so a VM runtime gets these besides CRI's own fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLASS = "vm"
"""The RuntimeClass of VMs, as `podfit up --vm` makes it."""
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
"""Paused: the vCPUs stand still. Suspended: memory is on disk and QEMU has ended. Shutdown: off, with its disks."""
OFF = (SUSPENDED, SHUTDOWN)


def wanted_power(pod: Mapping[str, Any]) -> str:
    """What the pod asks for, as `spec.virtualMachine.powerSpec` or as an annotation."""
    machine = pod["spec"].get("virtualMachine") or {}
    annotated = (pod["metadata"].get("annotations") or {}).get(POWER)
    found = machine.get("powerSpec") if machine else annotated
    return str(found or RUNNING)


def ends_when_shut_down(spec: Mapping[str, Any]) -> bool:
    """Whether a guest that shuts itself down ends its pod, whatever its restart policy says."""
    return (spec.get("virtualMachine") or {}).get("shutdownBehavior") == "terminate"


LEAST_MEMORY_MIB = 64
"""Below this a Linux kernel of today does not boot."""
CARRIED = 16
"""How many times its boot memory a guest can have: page tables for plugged memory come out of it."""
LARGEST_DEVICE_MIB = 2048
