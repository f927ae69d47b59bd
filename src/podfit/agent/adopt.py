"""Takes over pods that ran on while no agent watched: compares the ledger with the kernel, rebuilds what is lost.

A promise that is lost comes back from `status…allocatedResources` (requests) and the kernel (limits); what was
actuated is believed only where the kernel agrees, since a crash may lie between a step and its note.
"""

from __future__ import annotations

import logging

from podfit.agent.decide import kernel
from podfit.agent.decide.states import CPU, MEMORY, Allocated, Object, Resources, amount, desired_of, effective
from podfit.agent.ledger import Ledger
from podfit.agent.restarts import recall
from podfit.agent.runtimes.base import MIN_QUOTA_US, RUNNING, Limits, NotFound, PodState, Runtime

log = logging.getLogger(__name__)


async def adopt(pod: Object, state: PodState, ledger: Ledger, runtime: Runtime) -> None:
    uid = pod["metadata"]["uid"]
    recall(uid, state, ledger)
    actual = await _actual(state, runtime)
    if ledger.allocated(uid) is None:
        log.warning("no promise is known for pod %s, which runs: taken from its status", pod["metadata"]["name"])
        ledger.allocate(uid, _promise(pod, actual))
    allocated = ledger.allocated(uid)
    assert allocated is not None
    told = ledger.actuated(uid)
    for name, limits in actual.items():
        believed = told.containers.get(name)
        wanted = effective(allocated.containers.get(name), allocated.pod)
        if believed is not None and kernel.agrees(believed, limits):
            continue
        # Requests for memory leave no trace in the kernel: they count as told, unless limits tell otherwise.
        ledger.actuate(uid, name, wanted if kernel.agrees(wanted, limits) else from_kernel(wanted, believed, limits))
    if told.pod is None and allocated.pod is not None and not told.containers:
        ledger.actuate_pod(uid, allocated.pod)


async def _actual(state: PodState, runtime: Runtime) -> dict[str, Limits]:
    found: dict[str, Limits] = {}
    for container in state.containers:
        if container.state == RUNNING:
            try:
                found[container.name] = await runtime.container_limits(container.id)
            except NotFound:
                continue
    return found


def from_kernel(wanted: Resources, believed: Resources | None, limits: Limits) -> Object:
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


def _promise(pod: Object, actual: dict[str, Limits]) -> Allocated:
    desired = desired_of(pod)
    status = pod.get("status") or {}
    listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    shown = {one["name"]: one for one in listed}
    sizes = {
        name: _one_promise(resources, shown.get(name) or {}, actual.get(name))
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


def _one_promise(desired: Resources, shown: Object, limits: Limits | None) -> Object:
    """Only keys of the spec: requests as the API shows them allocated, limits as the kernel has them."""
    known = shown.get("allocatedResources") or {}
    reported = (shown.get("resources") or {}).get("limits") or {}
    requests = {name: known.get(name, text) for name, text in (desired.get("requests") or {}).items()}
    kept = dict(desired.get("limits") or {})
    for name in kept:
        kept[name] = reported.get(name, kept[name])
    if limits is not None:
        if CPU in kept and limits.cpu_quota_us is not None and limits.cpu_quota_us > MIN_QUOTA_US:
            kept[CPU] = kernel.cpu_text(kernel.milli_of_quota(limits.cpu_quota_us, limits.cpu_period_us))
        if MEMORY in kept and limits.memory_bytes is not None:
            reported_bytes = amount({"limits": kept}, MEMORY).limit or 0
            if kernel.whole_pages(reported_bytes) != limits.memory_bytes:
                kept[MEMORY] = kernel.memory_text(limits.memory_bytes)
    return {key: value for key, value in (("limits", kept), ("requests", requests)) if value}
