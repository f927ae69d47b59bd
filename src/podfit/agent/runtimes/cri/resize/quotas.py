"""Writes a pod's cgroup. Removes the CPU quotas of exited containers if they keep the pod's quota from being lowered.

On cgroup v1 the kernel refuses a pod's quota below that of any cgroup in it. Two kinds are empty and still count: that
of an exited container, until the runtime removes it, and one that the runtime has just removed, for the few
milliseconds until the kernel has released it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from podfit.agent.runtimes.cgroups import Cgroups
from podfit.agent.runtimes.cgroups.files import read
from podfit.agent.runtimes.values import UNLIMITED, LimitsChange, RuntimeFailure, WriteRefused

_PAUSES_S = (0.002, 0.005, 0.02, 0.1, 0.5)
"""The kernel releases a removed cgroup within these pauses; a busy machine takes some 10 ms."""


async def write_pod(cgroups: Cgroups, group: str, change: LimitsChange) -> None:
    for pause in (0.0, *_PAUSES_S):
        try:
            cgroups.write(group, change)
            return
        except WriteRefused:
            if change.cpu_quota_us in (None, UNLIMITED):
                raise
        _lift_ended(cgroups, group)
        if _held_by_members(cgroups, group, change.cpu_quota_us):
            break
        await asyncio.sleep(pause)
    cgroups.write(group, change)


def _lift_ended(cgroups: Cgroups, group: str) -> None:
    for each in cgroups.below(group):
        with suppress(RuntimeFailure, OSError):
            if not read(cgroups.procs_file(each)).strip():
                cgroups.write(each, LimitsChange(cpu_quota_us=UNLIMITED))


def _held_by_members(cgroups: Cgroups, group: str, quota_us: int) -> bool:
    for each in cgroups.below(group):
        with suppress(RuntimeFailure):
            if (cgroups.limits(each).cpu_quota_us or 0) > quota_us:
                return True
    return False
