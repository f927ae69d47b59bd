"""Actuated → Actual: computes what the status reports from the limits in the kernel. It never reports more than
those."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from podfit.agent.decide.resize import kernel
from podfit.agent.decide.resize.actuate import pending
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.values import Limits
from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.resize.states import CPU, MEMORY, Actuated, Allocated, Resources, amount, same


def in_progress(pod: Mapping[str, Any], allocated: Allocated, actuated: Actuated, running: Collection[str]) -> bool:
    return bool(pending(pod, allocated, actuated, running)) or not same(allocated.pod, actuated.pod)


def container_resources(allocated: Resources, actuated: Resources | None, actual: Limits | None) -> Object:
    """`status…resources` of a container, from its allocation and the kernel's limits. Without `actual` (not running) it
    is the allocation."""
    shown: Object = {key: dict(listed) for key, listed in allocated.items()}
    if actual is None:
        return shown
    actuated_memory = amount(actuated, MEMORY)
    if limits := shown.get("limits"):
        _cpu_limit(limits, amount(actuated, CPU).limit, actual)
        if MEMORY in limits and actual.memory_bytes is not None:
            limits[MEMORY] = _memory(amount(allocated, MEMORY).limit, actuated_memory.limit, actual)
    if requests := shown.get("requests"):
        _cpu_request(requests, actual)
        if MEMORY in requests and actuated_memory.request:
            requests[MEMORY] = kernel.memory_text(actuated_memory.request)
    return shown


def _cpu_limit(limits: Object, actuated: int | None, actual: Limits) -> None:
    """The kernel's quota; if only systemd's rounding differs, the requested limit is reported."""
    if CPU not in limits or actual.cpu_quota_us is None:
        return
    shown, allocated = (
        kernel.milli_of_quota(actual.cpu_quota_us, actual.cpu_period_us),
        Quantity.parse(limits[CPU]).milli,
    )
    for known in (allocated, actuated or 0):
        if kernel.rounded_by_systemd(known, actual):
            shown = known
            break
    if shown > kernel.LOWEST_CPU_LIMIT or allocated > kernel.LOWEST_CPU_LIMIT:
        limits[CPU] = kernel.cpu_text(shown)


def _cpu_request(requests: Object, actual: Limits) -> None:
    if CPU not in requests or actual.cpu_shares is None:
        return
    shown = kernel.milli_of_shares(actual.cpu_shares)
    if shown > kernel.LOWEST_CPU_REQUEST or Quantity.parse(requests[CPU]).milli > kernel.LOWEST_CPU_REQUEST:
        requests[CPU] = kernel.cpu_text(shown)


def _memory(allocated: int | None, actuated: int | None, actual: Limits) -> str:
    """The kernel's memory limit. The kernel uses whole pages: if only rounding differs, the requested size is
    reported."""
    held = actual.memory_bytes or 0
    for known in (allocated, actuated):
        if known and held in (known, kernel.whole_pages(known)):
            return kernel.memory_text(known)
    return kernel.memory_text(held)


def pod_allocated(sized: Sized) -> Object:
    """`status.allocatedResources`; `sized` is the pod with allocated resources in its spec."""
    return dict(sized.totals["requests"])


def pod_resources(sized: Sized, actuated: Sized, actual: Limits | None) -> Object:
    """`status.resources`. `actuated` is the pod with actuated resources; `actual` its cgroup, None unless it runs."""
    shown: Object = {key: dict(amounts) for key, amounts in sized.totals.items() if amounts}
    if actual is None:
        return shown
    if limits := shown.get("limits"):
        _cpu_limit(limits, actuated.limits[CPU].milli if CPU in actuated.limits else None, actual)
        if MEMORY in limits and actual.memory_bytes is not None:
            limits[MEMORY] = _memory(units(sized.limits, MEMORY), units(actuated.limits, MEMORY), actual)
    if requests := shown.get("requests"):
        _cpu_request(requests, actual)
        if MEMORY in requests and (held := actuated.requests.get(MEMORY)):
            requests[MEMORY] = kernel.memory_text(held.value)
    return shown


def units(amounts: Mapping[str, Quantity], name: str) -> int | None:
    return amounts[name].value if name in amounts else None
