"""The state of the CPU manager on disk."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from podfit.agent.cpus.decide.sets import NO_CPUS, Cpus

NONE, STATIC = "none", "static"
POLICIES = (NONE, STATIC)


class CpuState(Struct, frozen=True):
    policy: str
    shared: Cpus = NO_CPUS
    """The kubelet's default CPU set: all CPUs that are not assigned."""
    assigned: Mapping[str, Mapping[str, Cpus]] = {}
    """The assigned CPUs by pod UID and container."""
