"""Virtual machines as pods: the annotations that describe one, the power states, and the bounds of its size.

Nodes pass a pod's annotations to the runtime, so these are what a VM runtime is told besides CRI's own fields.
"""

from __future__ import annotations

CLASS = "vm"
"""The RuntimeClass of VMs, as `podfit up --vm` makes it."""
PREFIX = "podfit.dev/vm-"
CMDLINE, FIRMWARE, CELLS, NODE = PREFIX + "cmdline", PREFIX + "firmware", PREFIX + "numa-cells", PREFIX + "numa-node"
MAX_MEMORY, MAX_VCPUS, SLOTS = PREFIX + "max-memory", PREFIX + "max-vcpus", PREFIX + "slots"
DEVICE = PREFIX + "memory"

LEAST_MEMORY_MIB = 64
"""Below this a Linux kernel of today does not boot."""
CARRIED = 16
"""How many times its boot memory a guest can have: page tables for plugged memory come out of it."""
LARGEST_DEVICE_MIB = 2048
