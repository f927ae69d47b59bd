"""Desired → Allocated: decides whether this node can allocate the new size. Verdicts are values; nothing is written
here.

The check is absolute, like the kubelet's: the pod's whole new request must fit beside the allocations of all other
pods. Only resources whose request grows are checked: a resize that requests no more always succeeds, even on an
overcommitted node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.agent.decide.resize import machines
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.values import Machine
from podfit.api.objects import Object
from podfit.api.pods.machines import CLASS as VM_CLASS
from podfit.api.pods.resources import GUARANTEED, Amounts
from podfit.api.pods.room import COMPUTED, Room, grown, shortages, units
from podfit.api.quantity import Quantity
from podfit.api.resize.conditions import INFEASIBLE
from podfit.api.resize.dialects import DESIGN_2020, DESIGN_2021, LABEL
from podfit.api.resize.states import CPU, MEMORY, Allocated, Desired, all_containers, amount, equal
from podfit.api.resize.verdicts import Deferred, Granted, Infeasible, Shortage, Unchanged, Verdict

CRITICAL_PRIORITY = 2_000_000_000
MIRROR = "kubernetes.io/config.mirror"
CONFIG_SOURCE = "kubernetes.io/config.source"
RESTART = "RestartContainer"
INFEASIBLE_DETAILS = (
    "guaranteed_pod_cpu_manager_static_policy",
    "guaranteed_pod_memory_manager_static_policy",
    "static_pod",
    "swap_limitation",
    machines.FRACTION,
    machines.BEYOND,
    "insufficient_node_allocatable",
)
"""The causes of infeasible resizes, as label values of the metric."""


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """Settings of the node that forbid a resize."""

    swap: bool = False
    cpu_manager: str = "none"
    exclusive_cpus_resize: bool = False
    """The feature gate InPlacePodVerticalScalingExclusiveCPUs."""
    memory_manager: str = "None"
    beyond_allocatable: str = INFEASIBLE
    """The verdict on a request larger than the whole node: this, or "Deferred"."""


def decide(
    pod: Object,
    desired: Desired,
    allocated: Allocated,
    room: Room,
    qos: str,
    policy: NodePolicy,
    sized: Sized | None = None,
    kept_out: tuple[str, str] | None = None,
    exclusive_resize_allowed: bool = False,
    running_machines: Mapping[str, Machine] | None = None,
) -> Verdict:
    """`sized`: the pod with its desired sizes, if the caller already has it. `kept_out`: why a node under pressure
    would not admit the pod. `exclusive_resize_allowed`: the static CPU policy accepts resizes to whole CPUs.
    `running_machines`: the containers of the pod that are VMs."""
    if equal(desired, allocated):
        return Unchanged()
    refused = _unsupported(pod, desired, allocated, qos, policy, exclusive_resize_allowed, running_machines or {})
    if refused is not None:
        return refused
    needs = (sized or Sized(pod, desired)).requests
    if not shortages(needs, room) and kept_out is None:
        return Granted()
    needs = grown(needs, Sized(pod, allocated).requests)
    missing = shortages(needs, room)
    if not needs or not (missing or kept_out):
        return Granted()
    if missing and policy.beyond_allocatable == INFEASIBLE:
        beyond = shortages(needs, Room(room.allocatable, {}))
        if beyond:
            first = beyond[0]
            return Infeasible(
                "insufficient_node_allocatable",
                f"Node didn't have enough capacity: {first.resource}, requested: {first.requested}, "
                f"capacity: {first.capacity}",
            )
    if kept_out is not None:
        return Deferred(*kept_out)
    return Deferred(missing[0].reason, missing[0].message, tuple(missing))


def _unsupported(
    pod: Object,
    desired: Desired,
    allocated: Allocated,
    qos: str,
    policy: NodePolicy,
    exclusive_resize_allowed: bool,
    running_machines: Mapping[str, Machine],
) -> Infeasible | None:
    if is_static(pod):
        return Infeasible("static_pod", "In-place resize of static-pods is not supported")
    if running_machines or pod["spec"].get("runtimeClassName") == VM_CLASS:
        impossible = machines.impossible(desired, allocated, running_machines)
        if impossible is not None:
            return Infeasible(*impossible)
    if policy.swap and _swap_forbids(pod, desired, allocated):
        return Infeasible("swap_limitation", "In-place resize of containers with swap is not supported.")
    if qos == GUARANTEED:
        for name, manager, static, label in (
            (CPU, policy.cpu_manager, "static", "CPU"),
            (MEMORY, policy.memory_manager, "Static", "Memory"),
        ):
            if manager == static and _request_changes(desired, allocated, name):
                detail = f"guaranteed_pod_{name}_manager_static_policy"
                message = f'Resize is infeasible for Guaranteed Pods alongside {label} Manager policy "{static}"'
                if name != CPU or not exclusive_resize_allowed:
                    return Infeasible(detail, message)
                if (fraction := _fraction(desired, allocated)) is not None:
                    container, milli = fraction
                    requirement = f'container "{container}" requests {milli}m, which is not a whole number of CPUs'
                    return Infeasible(detail, f"{message}: {requirement}")
    return None


def _fraction(desired: Desired, allocated: Allocated) -> tuple[str, int] | None:
    """The first container whose CPU request changes to a fraction of a CPU, and that request."""
    for name, resources in desired.containers.items():
        before, after = amount(allocated.containers.get(name), CPU).request, amount(resources, CPU).request or 0
        if after != (before or 0) and after % 1000:
            return name, after
    return None


def _request_changes(desired: Desired, allocated: Allocated, name: str) -> bool:
    pairs = [(desired.pod, allocated.pod)]
    pairs += [(resources, allocated.containers.get(key)) for key, resources in desired.containers.items()]
    return any((amount(one, name).request or 0) != (amount(other, name).request or 0) for one, other in pairs)


def _swap_forbids(pod: Object, desired: Desired, allocated: Allocated) -> bool:
    for container in all_containers(pod["spec"]):
        name = container["name"]
        before, after = amount(allocated.containers.get(name), MEMORY), amount(desired.containers[name], MEMORY)
        if (before.request or 0) != (after.request or 0) and not restarts(container, MEMORY):
            return True
    return False


def restarts(container: Mapping[str, Any], name: str) -> bool:
    """Whether a change of this resource restarts the container."""
    policies = container.get("resizePolicy") or ()
    return any(policy["resourceName"] == name and policy["restartPolicy"] == RESTART for policy in policies)


def _dialect(pod: Mapping[str, Any]) -> str:
    """The resize design (KEP version) by which the pod was resized, if that design has rules for the node."""
    return str((pod["metadata"].get("annotations") or {}).get(LABEL) or "")


def resizes_whole_cpus(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's dialect lets whole CPUs be resized under the static CPU policy."""
    return _dialect(pod) in (DESIGN_2020, DESIGN_2021)


def clears_memory_volumes(pod: Mapping[str, Any]) -> bool:
    """Whether containers that restart for a resize get empty memory-backed volumes, as in the design of 2020."""
    return _dialect(pod) == DESIGN_2020


def is_static(pod: Mapping[str, Any]) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return MIRROR in annotations or annotations.get(CONFIG_SOURCE, "api") != "api"


def is_critical(pod: Mapping[str, Any]) -> bool:
    return is_static(pod) or int(pod["spec"].get("priority") or 0) >= CRITICAL_PRIORITY


def increases(desired: Amounts, allocated: Amounts) -> bool:
    return not grown(desired, allocated).keys().isdisjoint(COMPUTED)


def queue_key(pod: Object, increasing: bool, qos: str, pending_since: float | None) -> tuple[object, ...]:
    """The sort key of a pending resize: resizes that request no more come first, then by priority, then Guaranteed
    pods, then the longest waiting. The design of 2020 has no such ranking: within a priority its resizes are handled in
    order of arrival."""
    if _dialect(pod) == DESIGN_2020:
        return (True, 0, True, True, 0.0)
    return (
        increasing,
        -int(pod["spec"].get("priority") or 0),
        qos != GUARANTEED,
        pending_since is None,
        pending_since or 0.0,
    )


# --- making room for critical pods ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    uid: str
    qos: str
    priority: int
    critical: bool
    requests: Mapping[str, Quantity]


def victims(priority: int, missing: Iterable[Shortage], candidates: Iterable[Candidate]) -> list[str]:
    """The pods to evict for a critical pod, fewest and lowest-priority first; empty if it cannot be done."""
    lacking = {short.resource: short.requested + short.used - short.capacity for short in missing}
    lesser = [candidate for candidate in candidates if not candidate.critical or candidate.priority < priority]
    groups = {
        qos: [candidate for candidate in lesser if candidate.qos == qos]
        for qos in ("BestEffort", "Burstable", "Guaranteed")
    }
    if _left(lacking, lesser):
        return []
    best, burst = groups["BestEffort"], groups["Burstable"]
    chosen_guaranteed = _nearest(groups["Guaranteed"], _left(lacking, best + burst))
    chosen_burst = _nearest(burst, _left(lacking, best + chosen_guaranteed))
    chosen_best = _nearest(best, _left(lacking, chosen_burst + chosen_guaranteed))
    return [candidate.uid for candidate in chosen_best + chosen_burst + chosen_guaranteed]


def _gives(candidate: Candidate, name: str) -> int:
    return 1 if name == "pods" else units(name, candidate.requests.get(name, Quantity(0)))


def _left(lacking: Mapping[str, int], taken: Iterable[Candidate]) -> dict[str, int]:
    taken = list(taken)
    left = {name: need - sum(_gives(candidate, name) for candidate in taken) for name, need in lacking.items()}
    return {name: need for name, need in left.items() if need > 0}


def _nearest(group: list[Candidate], lacking: dict[str, int]) -> list[Candidate]:
    """Repeatedly takes the pod that reduces the need most; among equals the smaller one."""
    chosen: list[Candidate] = []
    rest = list(group)
    while lacking and rest:
        best = min(
            rest,
            key=lambda candidate: (
                _distance(candidate, lacking),
                sum(_gives(candidate, name) for name in (MEMORY, CPU)),
            ),
        )
        rest.remove(best)
        chosen.append(best)
        lacking = _left(lacking, [best])
    return chosen


def _distance(candidate: Candidate, lacking: Mapping[str, int]) -> float:
    return sum(max(0.0, (need - _gives(candidate, name)) / need) ** 2 for name, need in lacking.items())
