"""Restores the sizes of running containers whose ledger entries are lost or wrong, from the status and the kernel.
Pure."""

from __future__ import annotations

from podfit.agent.decide.resize import kernel
from podfit.agent.runtimes.values import MIN_QUOTA_US, Limits
from podfit.api.objects import Object
from podfit.api.resize.states import CPU, MEMORY, Allocated, Resources, amount, desired_of


def actuated(wanted: Resources, believed: Resources | None, limits: Limits) -> Object:
    """The size that corresponds to these kernel limits. Memory requests leave no trace in the kernel: those of
    `believed`, else of `wanted`, are used."""
    found: Object = {"limits": {}, "requests": {}}
    if limits.cpu_quota_us is not None:
        found["limits"][CPU] = kernel.cpu_text(kernel.milli_of_quota(limits.cpu_quota_us, limits.cpu_period_us))
    if limits.memory_bytes is not None:
        found["limits"][MEMORY] = kernel.memory_text(limits.memory_bytes)
    if limits.cpu_shares is not None:
        found["requests"][CPU] = kernel.cpu_text(kernel.milli_of_shares(limits.cpu_shares))
    known = (believed or wanted).get("requests") or {}
    if MEMORY in known:
        found["requests"][MEMORY] = known[MEMORY]
    return {key: value for key, value in found.items() if value}


def allocation(pod: Object, actual: dict[str, Limits]) -> Allocated:
    """The allocation of a running pod whose ledger entry is lost."""
    desired = desired_of(pod)
    status = pod.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    reported = {status["name"]: status for status in listed}
    sizes = {
        name: _container(resources, reported.get(name) or {}, actual.get(name))
        for name, resources in desired.containers.items()
    }
    level = desired.pod
    if level is not None and status.get("allocatedResources"):
        known = status["allocatedResources"]
        requests = {name: known.get(name, text) for name, text in (level.get("requests") or {}).items()}
        limits = (status.get("resources") or {}).get("limits") or {}
        kept = {name: limits.get(name, text) for name, text in (level.get("limits") or {}).items()}
        level = {key: value for key, value in (("limits", kept), ("requests", requests)) if value}
    return Allocated(sizes, level)


def _container(desired: Resources, reported: Object, limits: Limits | None) -> Object:
    """The size of one container, with only the spec's keys: requests from the allocation in the API, limits from the
    kernel."""
    known = reported.get("allocatedResources") or {}
    known_limits = (reported.get("resources") or {}).get("limits") or {}
    requests = {name: known.get(name, text) for name, text in (desired.get("requests") or {}).items()}
    kept = dict(desired.get("limits") or {})
    for name in kept:
        kept[name] = known_limits.get(name, kept[name])
    if limits is not None:
        if CPU in kept and limits.cpu_quota_us is not None and limits.cpu_quota_us > MIN_QUOTA_US:
            kept[CPU] = kernel.cpu_text(kernel.milli_of_quota(limits.cpu_quota_us, limits.cpu_period_us))
        if MEMORY in kept and limits.memory_bytes is not None:
            reported_bytes = amount({"limits": kept}, MEMORY).limit or 0
            if kernel.whole_pages(reported_bytes) != limits.memory_bytes:
                kept[MEMORY] = kernel.memory_text(limits.memory_bytes)
    return {key: value for key, value in (("limits", kept), ("requests", requests)) if value}
