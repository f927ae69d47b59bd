"""Allocated → Actuated: plans the steps that bring the kernel to the allocation. The state after each step is legal.

Memory before CPU. For each: the pod grows first, containers that shrink go before those that grow, the pod shrinks
last; so the containers never need more than the pod has. A plan with restarts has no other steps: the rest is planned
once the containers have exited.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from podfit.agent.decide.resize import kernel
from podfit.agent.decide.resize.allocate import restarts
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.values import BelowUsage, Limits, LimitsChange
from podfit.api.objects import Object
from podfit.api.pods.resources import is_sidecar
from podfit.api.resize.states import (
    CPU,
    MEMORY,
    RESOURCES,
    Actuated,
    Allocated,
    Resources,
    all_containers,
    amount,
    clean,
    differs,
    effective,
    same,
)

GROW, SHRINK = "grow", "shrink"


class SetPod(Struct, frozen=True):
    """Write the pod's cgroup."""

    resource: str
    direction: str
    change: LimitsChange


class SetContainer(Struct, frozen=True):
    """Write a container's cgroup (nothing to write if `change` is empty), then record its resource as actuated to
    `after`."""

    resource: str
    direction: str
    name: str
    change: LimitsChange
    after: Resources


class NotePod(Struct, frozen=True):
    """Record the pod-level resources as actuated to `after`."""

    resource: str
    after: Resources


Step = SetPod | SetContainer | NotePod


class MemoryCheck(Struct, frozen=True):
    """A limit that must not be below the current usage; container "" is the pod."""

    container: str
    limit: int


class Plan(Struct, frozen=True):
    restart: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    checks: tuple[MemoryCheck, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.restart or self.steps)


def pending(
    pod: Mapping[str, Any], allocated: Allocated, actuated: Actuated, running: Collection[str]
) -> list[tuple[Object, Object]]:
    """The running containers whose allocation is not applied yet, in spec order, each with its effective allocated
    resources."""
    found = []
    for container in all_containers(pod["spec"]):
        name = container["name"]
        if name in running:
            wanted = effective(allocated.containers.get(name), allocated.pod)
            if not same(wanted, actuated.containers.get(name)):
                found.append((container, wanted))
    return found


def plan(
    pod: Object,
    qos: str,
    allocated: Allocated,
    actuated: Actuated,
    running: Collection[str],
    starting: Collection[str],
    pod_now: Limits | None,
    unverified: bool = False,
    sized: Sized | None = None,
) -> Plan:
    """`starting` are the containers about to be created; `pod_now` is the pod's cgroup (None: it does not exist yet).

    `unverified` compares the pod's cgroup even if no container changes: an earlier plan may have been interrupted.
    `sized` is the pod with its allocated sizes, if the caller already has it.
    """
    changed = pending(pod, allocated, actuated, running)
    restart = tuple(
        container["name"] for container, wanted in changed if _must_restart(container, pod, wanted, actuated)
    )
    if restart:
        return Plan(restart)
    grown = [name for name in starting if _is_resized(name, allocated, actuated)]
    level = not same(allocated.pod, actuated.pod)
    if pod_now is None or not (changed or grown or level or unverified):
        return Plan()
    target = kernel.pod_cgroup(sized or Sized(pod, allocated), qos)
    steps: list[Step] = []
    checks: list[MemoryCheck] = []
    known = dict(actuated.containers)
    noted = clean(actuated.pod)
    for resource in RESOURCES:
        mine = [
            (container["name"], wanted)
            for container, wanted in changed
            if _changes(container["name"], wanted, actuated, resource)
        ]
        if not (mine or grown or level or unverified):
            continue
        before, after = _pod_steps(resource, pod_now, target)
        if resource == MEMORY and any(step.direction == SHRINK for step in after):
            assert target.memory_bytes is not None
            checks.append(MemoryCheck("", target.memory_bytes))
        inner = [_container_step(name, resource, wanted, allocated.pod, known) for name, wanted in mine]
        if resource == MEMORY:
            checks += _container_checks(inner, actuated)
        steps += [*before, *_ordered(inner), *after]
        if level:
            noted = merged(noted, allocated.pod or {}, resource)
            steps.append(NotePod(resource, noted))
    return Plan((), tuple(steps), tuple(checks))


def _must_restart(container: Object, pod: Mapping[str, Any], wanted: Resources, actuated: Actuated) -> bool:
    if not container.get("resizePolicy"):
        return False
    plain_init = not is_sidecar(container) and container in (pod["spec"].get("initContainers") or ())
    if plain_init:
        return False
    name = container["name"]
    return any(restarts(container, resource) and _changes(name, wanted, actuated, resource) for resource in RESOURCES)


def _is_resized(name: str, allocated: Allocated, actuated: Actuated) -> bool:
    known = actuated.containers.get(name)
    return known is None or not same(effective(allocated.containers.get(name), allocated.pod), known)


def _changes(name: str, wanted: Resources, actuated: Actuated, resource: str) -> bool:
    return differs(wanted, actuated.containers.get(name), resource)


def _pod_steps(resource: str, now: Limits, target: Limits) -> tuple[list[SetPod], list[SetPod]]:
    """The pod's changes before and after those of its containers: the pod grows before them and shrinks after them."""
    before: list[SetPod] = []
    after: list[SetPod] = []
    if resource == MEMORY:
        limit, current = target.memory_bytes, now.memory_bytes
        if limit is None or current in (limit, kernel.whole_pages(limit)):
            return before, after
        # A first memory limit reduces memory: the containers come first, the pod last.
        if current is not None and limit > current:
            before.append(SetPod(MEMORY, GROW, LimitsChange(memory_bytes=limit)))
        else:
            after.append(SetPod(MEMORY, SHRINK, LimitsChange(memory_bytes=limit)))
        return before, after
    quota, shares = target.cpu_quota_us, target.cpu_shares
    if quota is not None and quota != now.cpu_quota_us:
        grows = now.cpu_quota_us is None or quota > now.cpu_quota_us
        (before if grows else after).append(SetPod(CPU, GROW if grows else SHRINK, LimitsChange(cpu_quota_us=quota)))
    if shares is not None and shares != now.cpu_shares:
        grows = shares > (now.cpu_shares or 0)
        step = SetPod(CPU, GROW if grows else SHRINK, LimitsChange(cpu_shares=shares))
        if grows:
            before.append(step)
        else:
            after.insert(0, step)
    return before, after


def _container_step(
    name: str, resource: str, wanted: Resources, pod_level: Resources | None, known: dict[str, Resources]
) -> SetContainer:
    current = known.get(name, {})
    old, new = amount(current, resource), amount(wanted, resource)
    after = merged(current, wanted, resource)
    known[name] = after
    direction = _direction(old.limit or 0, new.limit or 0) or _direction(old.request or 0, new.request or 0) or GROW
    if resource == CPU:
        change = _cpu(wanted)
    elif (old.limit or 0) != (new.limit or 0):
        # An update carries all of the container's resources, as a CRI call does; CPU has its last actuated values.
        change = replace(_cpu(effective(current, pod_level)), memory_bytes=new.limit)
    else:
        change = LimitsChange()
    return SetContainer(resource, direction, name, change, after)


def _cpu(resources: Resources) -> LimitsChange:
    """The CPU values of a container. Shares are those of a new container: without a request, they follow from its limit
    or its pod."""
    limits = kernel.container_limits(resources)
    return LimitsChange(cpu_shares=limits.cpu_shares, cpu_quota_us=limits.cpu_quota_us)


def _direction(old: int, new: int) -> str:
    return GROW if new > old else SHRINK if new < old else ""


def _ordered(steps: list[SetContainer]) -> list[SetContainer]:
    """Shrinking containers in reverse order, then growing ones in order."""
    if len(steps) < 2:
        return steps
    shrinking = [step for step in reversed(steps) if step.direction == SHRINK]
    return shrinking + [step for step in steps if step.direction == GROW]


def _container_checks(steps: list[SetContainer], actuated: Actuated) -> list[MemoryCheck]:
    found = []
    for step in steps:
        old, new = amount(actuated.containers.get(step.name), MEMORY).limit, amount(step.after, MEMORY).limit
        if new and (not old or new < old):
            found.append(MemoryCheck(step.name, new))
    return found


def merged(current: Resources, wanted: Resources, resource: str) -> Object:
    """`current` with the values of one resource taken from `wanted`."""
    merged: Object = {}
    for key in ("limits", "requests"):
        values = dict(current.get(key) or {})
        values.pop(resource, None)
        if resource in (wanted.get(key) or {}):
            values[resource] = wanted[key][resource]
        if values:
            merged[key] = values
    return merged


def below_usage(violations: list[tuple[MemoryCheck, BelowUsage]]) -> str:
    """The error message for memory limits below usage."""
    parts = []
    for check, found in violations:
        whose = f'container "{check.container}"' if check.container else "pod"
        text = f"attempting to set {whose} memory limit ({check.limit}) below current usage ({found.usage_bytes})"
        if found.outside_bytes:
            text += f", {found.outside_bytes} of it held by processes of the container runtime in the pod's cgroup"
        parts.append(text)
    text = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    return f"cannot decrease memory limits: {text}"
