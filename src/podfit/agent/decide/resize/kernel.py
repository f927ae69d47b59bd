"""Converts between Kubernetes' quantities and the kernel's numbers: shares, quotas, bytes. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.values import MAX_SHARES, MIN_QUOTA_US, MIN_SHARES, PERIOD_US, Limits
from podfit.api.objects import Object
from podfit.api.pods.resources import BURSTABLE, GUARANTEED, pod_limits
from podfit.api.quantity import ZERO, Quantity
from podfit.api.resize.states import CPU, MEMORY, Resources, all_containers, amount, number

PAGE = 4096
LOWEST_CPU_REQUEST, LOWEST_CPU_LIMIT = 2, 10
"""Milli CPUs below which the kernel's minimum hides the request."""


def shares(milli: int) -> int:
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES)


def quota_us(milli: int, period_us: int = PERIOD_US) -> int | None:
    return max(milli * period_us // 1000, MIN_QUOTA_US) if milli else None


def milli_of_shares(value: int) -> int:
    return -(-value * 1000 // 1024)


def milli_of_quota(quota: int, period_us: int = PERIOD_US) -> int:
    return quota * 1000 // period_us


def rounded_by_systemd(milli: int, limits: Limits) -> bool:
    """Whether the quota is this CPU limit as rounded up by systemd, to whole 10 ms per second."""
    quota, exact, step = limits.cpu_quota_us, quota_us(milli, limits.cpu_period_us), limits.cpu_period_us // 100
    return quota is not None and exact is not None and exact < quota == -(-exact // step) * step


def whole_pages(size: int) -> int:
    """Rounds a memory limit to whole pages, as the kernel does."""
    return size // PAGE * PAGE


def container_limits(resources: Resources) -> Limits:
    """The limits of a new container; `resources` are effective ones. Without a request, shares follow from the CPU
    limit."""
    cpu, memory = amount(resources, CPU), amount(resources, MEMORY)
    request = cpu.request if cpu.request is not None else cpu.limit or 0
    return Limits(shares(request), quota_us(cpu.limit or 0), memory.limit or None)


def agrees(resources: Resources, limits: Limits) -> bool:
    """Whether a container's cgroup matches these (effective) resources."""
    expected = container_limits(resources)
    memory = expected.memory_bytes
    possible = {memory, whole_pages(memory) if memory is not None else None}
    quota = _rate(limits) == _rate(expected) or rounded_by_systemd(amount(resources, CPU).limit or 0, limits)
    return limits.cpu_shares == expected.cpu_shares and quota and limits.memory_bytes in possible


def _rate(limits: Limits) -> float | None:
    return None if limits.cpu_quota_us is None else limits.cpu_quota_us / limits.cpu_period_us


def pod_cgroup(sized: Sized, qos: str) -> Limits:
    """The pod's own cgroup; it has a limit only if every container (or the pod itself) has one."""
    requests, limits = sized.requests, sized.limits
    cpu_request = requests[CPU].milli if CPU in requests else 0
    cpu_limit = limits[CPU].milli if CPU in limits else 0
    memory_limit = limits[MEMORY].value if MEMORY in limits else 0
    weight = shares(cpu_request or (cpu_limit if CPU not in requests else 0))
    if qos == GUARANTEED:
        return Limits(weight, quota_us(cpu_limit), memory_limit or None)
    if qos == BURSTABLE:
        spec = sized.pod["spec"]
        return Limits(
            weight,
            quota_us(cpu_limit) if _all_limited(spec, CPU) else None,
            (memory_limit or None) if _all_limited(spec, MEMORY) else None,
        )
    return Limits(MIN_SHARES, None, None)


def memory_volume_bytes(pod: Object, size_limit: int, node_bytes: int) -> int:
    """The size of a memory-backed volume: the minimum of its own limit, the pod's and the node's. 0: none is set."""
    limit = pod_limits(pod).get(MEMORY, ZERO).value if _all_limited(pod["spec"], MEMORY) else 0
    return min((bound for bound in (size_limit, limit, node_bytes) if bound > 0), default=0)


def _all_limited(spec: Mapping[str, Any], name: str) -> bool:
    if name in ((spec.get("resources") or {}).get("limits") or {}):
        return True
    for container in all_containers(spec):
        limits = (container.get("resources") or {}).get("limits")
        if not limits or not number(limits.get(name) or 0, name):
            return False
    return True


# The same few numbers are printed in every status, so their texts are cached.
@lru_cache(maxsize=4096)
def cpu_text(milli: int) -> str:
    return str(Quantity.of_milli(milli))


@lru_cache(maxsize=4096)
def memory_text(size: int) -> str:
    return str(Quantity.of_units(size, "BinarySI"))
