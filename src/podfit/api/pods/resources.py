"""Resources of a pod: effective requests and limits, and the QoS class derived from them.

Pure functions over pods as JSON. `use_status` selects the view for accounting of running pods (scheduler, quota): the
largest of desired, allocated and actual, without desired while a resize is infeasible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from podfit.api.quantity import Quantity
from podfit.api.resize.conditions import PENDING, listed
from podfit.api.resize.verdicts import is_resize_infeasible

Amounts = dict[str, Quantity]

GUARANTEED = "Guaranteed"
BURSTABLE = "Burstable"
BEST_EFFORT = "BestEffort"

CPU = "cpu"
MEMORY = "memory"
HUGE_PAGES_PREFIX = "hugepages-"
EPHEMERAL_STORAGE = "ephemeral-storage"

_NOTHING: Mapping[str, Any] = {}


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """An init container that keeps running beside the regular ones."""
    return container.get("restartPolicy") == "Always"


def is_pod_level_resource(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """A JSON resource list as quantities."""
    return {name: Quantity.parse(text) for name, text in resources.items()} if resources else {}


def container_requests(container: Mapping[str, Any]) -> Amounts:
    return amounts((container.get("resources") or _NOTHING).get("requests"))


def container_limits(container: Mapping[str, Any]) -> Amounts:
    return amounts((container.get("resources") or _NOTHING).get("limits"))


def has_pod_level(spec: Mapping[str, Any]) -> bool:
    """Whether spec.resources contains a resource that is supported at pod level."""
    resources = spec.get("resources")
    if not resources:
        return False
    return any(is_pod_level_resource(name) for kind in ("requests", "limits") for name in resources.get(kind) or ())


def pod_requests(
    pod: Mapping[str, Any], *, use_status: bool = False, pod_level: bool = True, overhead: bool = True
) -> Amounts:
    """The resources that the pod reserves on a node."""
    spec = pod.get("spec") or _NOTHING
    total = _aggregate(pod, "requests", use_status)
    if pod_level and spec.get("resources"):
        total.update(_pod_level(pod, "requests", use_status))
    if overhead and spec.get("overhead"):
        add_into(total, amounts(spec["overhead"]))
    return total


def requests_key(pod: Mapping[str, Any], use_status: bool) -> bytes:
    """All inputs of `pod_requests`: equal for pods of one template, so that sums can be cached by it."""
    return msgspec.json.encode((_wanted(pod.get("spec") or _NOTHING), _reported(pod) if use_status else None))


def same_requests(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether `pod_requests` is the same for both pods, status included. Shared parts are skipped."""
    spec, others = one.get("spec") or _NOTHING, other.get("spec") or _NOTHING
    if spec is not others and _wanted(spec) != _wanted(others):
        return False
    if one.get("status") is other.get("status") and (
        # A newer spec may have outdated the same verdict.
        listed(one, PENDING) is None or is_resize_infeasible(one) == is_resize_infeasible(other)
    ):
        return True
    return _reported(one) == _reported(other)


def _wanted(spec: Mapping[str, Any]) -> tuple[object, ...]:
    """All parts of a spec that `pod_requests` depends on."""
    init_containers, level = spec.get("initContainers"), spec.get("resources")
    return (
        [
            (container.get("name"), (container.get("resources") or _NOTHING).get("requests"))
            for container in spec.get("containers") or ()
        ],
        [
            (
                container.get("name"),
                (container.get("resources") or _NOTHING).get("requests"),
                container.get("restartPolicy"),
            )
            for container in init_containers
        ]
        if init_containers
        else None,
        level.get("requests") if level else None,
        spec.get("overhead"),
    )


def _reported(pod: Mapping[str, Any]) -> tuple[object, ...] | None:
    """The amounts in the pod's status; None if it has none: then only the spec counts."""
    status = pod.get("status") or _NOTHING
    running, started, level = (
        status.get("containerStatuses"),
        status.get("initContainerStatuses"),
        status.get("resources"),
    )
    if running is None and started is None and level is None:
        return None
    return (
        [*map(_amounts_in, running or ())],
        [*map(_amounts_in, started or ())],
        _amounts_in(status),
        is_resize_infeasible(pod),
    )


def _amounts_in(status: Mapping[str, Any]) -> tuple[object, ...]:
    """The amounts in the status of a container, or of the pod, and whether resources are reported at all."""
    resources = status.get("resources")
    reported = None if resources is None else (resources.get("requests"),)
    return status.get("name"), reported, status.get("allocatedResources")


def pod_limits(
    pod: Mapping[str, Any], *, use_status: bool = False, pod_level: bool = True, overhead: bool = True
) -> Amounts:
    """The most that the pod may use; a resource without a limit is absent."""
    spec = pod.get("spec") or _NOTHING
    total = _aggregate(pod, "limits", use_status)
    if pod_level and spec.get("resources"):
        total.update(_pod_level(pod, "limits", use_status))
    if overhead and spec.get("overhead"):
        # Overhead never creates a limit where there is none.
        for name, extra in amounts(spec["overhead"]).items():
            if total.get(name):
                total[name] = total[name] + extra
    return total


def add_into(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def max_into(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _aggregate(pod: Mapping[str, Any], kind: str, use_status: bool) -> Amounts:
    """Regular containers and sidecars together, or the largest step of initialization, whichever is larger."""
    spec = pod.get("spec") or _NOTHING
    status = pod.get("status") or _NOTHING
    infeasible = use_status and is_resize_infeasible(pod)
    running = _statuses(status.get("containerStatuses")) if use_status else {}
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add_into(total, _of_container(container, kind, running.get(container.get("name")), infeasible))
    init_containers = spec.get("initContainers")
    if not init_containers:
        return total
    started = _statuses(status.get("initContainerStatuses")) if use_status else {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in init_containers:
        if is_sidecar(container):
            mine = _of_container(container, kind, started.get(container.get("name")), infeasible)
            add_into(total, mine)
            add_into(sidecars, mine)
            max_into(peak, sidecars)
        else:
            step = _of_container(container, kind, None, False)
            add_into(step, sidecars)
            max_into(peak, step)
    max_into(total, peak)
    return total


def _statuses(statuses: Iterable[Mapping[str, Any]] | None) -> dict[Any, Mapping[str, Any]]:
    return {status.get("name"): status for status in statuses or ()}


def _of_container(
    container: Mapping[str, Any], kind: str, status: Mapping[str, Any] | None, infeasible: bool
) -> Amounts:
    desired = amounts((container.get("resources") or _NOTHING).get(kind))
    if status is None or status.get("resources") is None:
        return desired
    return _largest(desired, status, kind, infeasible)


def _largest(desired: Amounts, status: Mapping[str, Any], kind: str, infeasible: bool) -> Amounts:
    largest = amounts((status.get("resources") or _NOTHING).get(kind))
    if kind == "requests":
        max_into(largest, amounts(status.get("allocatedResources")))
    if not infeasible:
        max_into(largest, desired)
    return largest


def _pod_level(pod: Mapping[str, Any], kind: str, use_status: bool) -> Amounts:
    listed = amounts(pod["spec"]["resources"].get(kind))
    desired = {name: amount for name, amount in listed.items() if is_pod_level_resource(name)}
    status = pod.get("status") or _NOTHING
    if not use_status or not desired or status.get("resources") is None:
        return desired
    largest = _largest(desired, status, kind, is_resize_infeasible(pod))
    return {name: largest.get(name, amount) for name, amount in desired.items()}


# --- QoS ----------------------------------------------------------------------------------------------------------


def qos_class(pod_or_spec: Mapping[str, Any]) -> str:
    """The class computed from the spec; pod-level resources, if given, decide alone, even if they are empty."""
    spec = pod_or_spec.get("spec", pod_or_spec) or _NOTHING
    if spec.get("resources") is not None:
        holders: list[Mapping[str, Any]] = [spec]
    else:
        holders = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    guaranteed = True
    for holder in holders:
        resources = holder.get("resources") or _NOTHING
        _add_compute(requests, resources.get("requests"))
        guaranteed = _add_compute(limits, resources.get("limits")) == 2 and guaranteed
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if guaranteed and requests == limits else BURSTABLE


def _add_compute(total: dict[str, int], resources: Mapping[str, Any] | None) -> int:
    """Adds non-zero CPU and memory, in nanos; returns how many of the two are set."""
    added = 0
    if resources:
        for name in (CPU, MEMORY):
            nanos = Quantity.parse(resources[name]).nanos if name in resources else 0
            if nanos > 0:
                total[name] = total.get(name, 0) + nanos
                added += 1
    return added
