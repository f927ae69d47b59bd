"""Converts limits, and changes of limits, to and from CRI's numbers, where 0 means "not set"."""

from __future__ import annotations

from podfit.agent.runtimes.values import UNLIMITED, Limits, LimitsChange
from podfit.cri import api_pb2 as api


def resources(limits: Limits, oom_score_adj: int = 0) -> api.LinuxContainerResources:
    """CRI's resources of a new container, where 0 means no limit. Swap is disabled: the limits of memory and of memory
    with swap are equal."""
    memory = limits.memory_bytes or 0
    return api.LinuxContainerResources(
        cpu_period=limits.cpu_period_us,
        cpu_quota=limits.cpu_quota_us or 0,
        cpu_shares=limits.cpu_shares or 0,
        memory_limit_in_bytes=memory,
        memory_swap_limit_in_bytes=memory,
        oom_score_adj=oom_score_adj,
        cpuset_cpus=limits.cpuset_cpus,
    )


def update(change: LimitsChange, period_us: int) -> api.LinuxContainerResources:
    """CRI's resources of an update, with only the changes: 0 leaves a value unchanged, -1 removes a limit."""
    memory = change.memory_bytes or 0
    return api.LinuxContainerResources(
        cpu_period=period_us if change.cpu_quota_us is not None else 0,
        cpu_quota=UNLIMITED if change.cpu_quota_us == UNLIMITED else change.cpu_quota_us or 0,
        cpu_shares=change.cpu_shares or 0,
        memory_limit_in_bytes=memory,
        memory_swap_limit_in_bytes=memory,
        cpuset_cpus=change.cpuset_cpus,
    )


def limits_of(linux: api.LinuxContainerResources) -> Limits:
    """The limits that a runtime reports for a container whose cgroup cannot be read."""
    return Limits(
        cpu_shares=linux.cpu_shares or None,
        cpu_quota_us=linux.cpu_quota if linux.cpu_quota > 0 else None,
        memory_bytes=linux.memory_limit_in_bytes if linux.memory_limit_in_bytes > 0 else None,
        cpu_period_us=linux.cpu_period or Limits().cpu_period_us,
        cpuset_cpus=linux.cpuset_cpus,
    )


def merged(first: LimitsChange, then: LimitsChange) -> LimitsChange:
    """Merges two changes: where both have a value, that of `then` applies."""
    return LimitsChange(
        then.cpu_shares if then.cpu_shares is not None else first.cpu_shares,
        then.cpu_quota_us if then.cpu_quota_us is not None else first.cpu_quota_us,
        then.memory_bytes if then.memory_bytes is not None else first.memory_bytes,
        then.cpuset_cpus or first.cpuset_cpus,
    )


def undo(change: LimitsChange, before: Limits) -> LimitsChange:
    """The change that restores the values before `change`."""
    quota = UNLIMITED if before.cpu_quota_us is None else before.cpu_quota_us
    memory = UNLIMITED if before.memory_bytes is None else before.memory_bytes
    return LimitsChange(
        before.cpu_shares if change.cpu_shares is not None else None,
        quota if change.cpu_quota_us is not None else None,
        memory if change.memory_bytes is not None else None,
        before.cpuset_cpus if change.cpuset_cpus else "",
    )
