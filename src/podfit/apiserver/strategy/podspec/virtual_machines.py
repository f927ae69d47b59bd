"""Pods that run a virtual machine: `spec.virtualMachine`, and the one container that mirrors it.

All components that read pods (schedulers, quotas, autoscalers, nodes) read containers. Therefore a pod with a virtual
machine has one container with the same name, image and resources. If a client changes one of the two, the other is
updated. Templates have no mirror container: it is added to the pods created from them.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.status import duplicate, field_not_found, not_supported, required, too_long
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy import resourcelists
from podfit.apiserver.strategy.checks import Errors, equal, names_valid
from podfit.apiserver.strategy.podspec.containers import PULL_POLICIES, PodRules
from podfit.apiserver.strategy.podspec.storage.mounts import volume_devices, volume_mounts

FIELD = "virtualMachine"
NO_RESTART, RESTART = "NoRestart", "RestartContainer"
_NATIVE_POLICIES = {NO_RESTART: "NotRequired", RESTART: "RestartContainer"}
_POLICIES = {native: policy for policy, native in _NATIVE_POLICIES.items()}
_POWER = ("Paused", "Running", "Shutdown", "Suspended")
_SHUTDOWN = ("stop", "terminate")
_LONGEST_USER_DATA = 65_535
_MIRRORED = ("name", "image", "imagePullPolicy", "resources", "resizePolicy")
_FIXED = ("name", "volumeMounts", "volumeDevices", "bootVolume")


def default_machine(machine: Object, pull_policy: str) -> None:
    for field, value in (("powerSpec", "Running"), ("shutdownBehavior", "stop"), ("imagePullPolicy", pull_policy)):
        if not machine.get(field):
            machine[field] = value


def add_mirror(spec: Object) -> None:
    """Adds the mirror container to a pod that has only a virtual machine."""
    if not spec.get("containers"):
        machine = spec[FIELD]
        container = {key: machine[key] for key in ("volumeMounts", "volumeDevices") if machine.get(key)}
        _copy(machine, container, _MIRRORED, _NATIVE_POLICIES)
        spec["containers"] = [container]


def follow_container(spec: Object) -> None:
    """Copies the results of defaulting and admission from the container to the virtual machine."""
    container = _mirror(spec)
    if container is not None:
        machine = spec[FIELD] = dict(spec[FIELD])
        _copy(container, machine, ("imagePullPolicy", "resources", "resizePolicy"), _POLICIES)


def allocate_requests(spec: Object) -> None:
    """Sets the allocation of a new virtual machine to its requests."""
    machine = spec[FIELD]
    if "resourcesAllocated" not in machine:
        requests = (machine.get("resources") or {}).get("requests")
        if requests:
            machine["resourcesAllocated"] = dict(requests)


def reconcile(spec: Object, stored: Object) -> None:
    """Applies a client's change of the machine to its container, and vice versa. If the client changed both, neither is
    modified, and validation compares them."""
    container, before = _mirror(spec), _mirror(stored)
    if container is None or before is None:
        return
    machine, kept = dict(spec[FIELD]), stored[FIELD]
    merged = dict(before)
    for field in _MIRRORED:
        wanted = container
        if equal(container.get(field), before.get(field)) and not _same(machine, before, field):
            wanted = {}
            _copy(machine, wanted, (field,), _NATIVE_POLICIES)
        elif _same(machine, before, field):
            _copy(container, machine, (field,), _POLICIES)
        _put(merged, field, wanted.get(field))
    _put(machine, "resourcesAllocated", kept.get("resourcesAllocated"))
    spec[FIELD], spec["containers"] = machine, [merged]


def _same(machine: Object, container: Object, field: str) -> bool:
    shown: Object = {}
    _copy(container, shown, (field,), _POLICIES)
    return equal(machine.get(field) or None, shown.get(field) or None)


def _agree(machine: Object, container: Object) -> bool:
    return all(_same(machine, container, field) for field in ("image", "resources", "resizePolicy"))


def _mirror(spec: Object) -> Object | None:
    """The container that mirrors the virtual machine; None if there are other containers."""
    machine, containers = spec.get(FIELD), spec.get("containers") or []
    if machine is None or len(containers) != 1 or containers[0].get("name") != machine.get("name"):
        return None
    found: Object = containers[0]
    return found


def _copy(source: Object, target: Object, fields: tuple[str, ...], policies: dict[str, str]) -> None:
    for field in fields:
        value = source.get(field)
        if field == "resizePolicy" and value:
            value = [_translated(policy, policies) for policy in value]
        elif field == "resources" and value:
            value = {key: dict(part) if isinstance(part, dict) else part for key, part in value.items()}
        _put(target, field, value)


def _translated(policy: Object, policies: dict[str, str]) -> Object:
    source, target = ("policy", "restartPolicy") if policies is _NATIVE_POLICIES else ("restartPolicy", "policy")
    value = policy.get(source, "")
    return {"resourceName": policy.get("resourceName", ""), target: policies.get(value, value)}


def _put(target: Object, field: str, value: Any) -> None:
    if value is None:
        target.pop(field, None)
    else:
        target[field] = value


def virtual_machine(spec: Object, context: PodRules, path: str, errors: Errors, *, is_pod: bool) -> None:
    """Validates the virtual machine instead of the container that mirrors it."""
    machine, here = spec[FIELD], f"{path}.{FIELD}"
    mirror = _mirror(spec)
    if spec.get("containers") and mirror is None:
        errors.append(forbidden("containers,virtualMachine", "containers and virtualMachine workloads in same pod"))
        return
    if not agrees_with_mirror(spec, path, errors):
        return
    if spec.get("initContainers"):
        errors.append(forbidden(f"{path}.initContainers", "a pod with a virtual machine cannot have init containers"))
    name = machine.get("name", "")
    if name:
        names_valid(name, f"{here}.name", names.dns_label(name), errors)
    else:
        errors.append(required(f"{here}.name", "virtual machine name cannot be empty"))
    if is_pod and not machine.get("image"):
        errors.append(required(f"{here}.image"))
    if machine.get("resources"):
        resourcelists.requirements(machine["resources"], f"{here}.resources", context.claims, errors)
    _choices(machine, here, errors)
    _resize_policies(machine.get("resizePolicy") or (), context.restart_policy, f"{here}.resizePolicy", errors)
    if machine.get("volumeMounts"):
        volume_mounts(machine, context.volumes, f"{here}.volumeMounts", errors)
    if machine.get("volumeDevices"):
        volume_devices(machine, context.volumes, f"{here}.volumeDevices", errors, machine=True)
    boot = machine.get("bootVolume")
    if boot and boot not in {each.get("name") for each in machine.get("volumeDevices") or ()}:
        errors.append(field_not_found(f"{here}.bootVolume", boot))
    if not machine.get("keyPairName") and not machine.get("publicKey"):
        errors.append(required(f"{here}.keyPairName", "KeyPairName and PublicKey can't be both empty"))
    if len(machine.get("userData") or "") > _LONGEST_USER_DATA:
        errors.append(too_long(f"{here}.userData", _LONGEST_USER_DATA))


def agrees_with_mirror(spec: Object, path: str, errors: Errors) -> bool:
    mirror = _mirror(spec)
    if mirror is None or _agree(spec[FIELD], mirror):
        return True
    detail = (
        f'differs from its container "{mirror["name"]}" in image, resources or resize policy; change one of the two'
    )
    errors.append(forbidden(f"{path}.{FIELD}", detail))
    return False


def _choices(machine: Object, path: str, errors: Errors) -> None:
    for field, known in (
        ("imagePullPolicy", PULL_POLICIES),
        ("powerSpec", _POWER),
        ("shutdownBehavior", _SHUTDOWN),
    ):
        value = machine.get(field)
        if value and value not in known:
            errors.append(not_supported(f"{path}.{field}", value, known))


def _resize_policies(policies: Any, restart_policy: str, path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, policy in enumerate(policies):
        here, name, value = f"{path}[{at}]", policy.get("resourceName", ""), policy.get("policy", "")
        if name in seen:
            errors.append(duplicate(here, name))
        seen.add(name)
        if name not in ("cpu", "memory"):
            errors.append(not_supported(f"{here}.resourceName", name, ("cpu", "memory")))
        if not value:
            errors.append(required(f"{here}.policy"))
        elif value not in _NATIVE_POLICIES:
            errors.append(not_supported(f"{here}.policy", value, tuple(_NATIVE_POLICIES)))
        elif value == RESTART and restart_policy == "Never":
            errors.append(not_supported(f"{here}.policy", value, (NO_RESTART,)))


def validate_new(spec: Object, errors: Errors) -> None:
    """Rejects an allocation that differs from the requests of a new virtual machine: only a node may write one."""
    machine = spec.get(FIELD) or {}
    requests = (machine.get("resources") or {}).get("requests") or {}
    if not equal(machine.get("resourcesAllocated") or {}, requests, "requests"):
        errors.append(forbidden(f"spec.{FIELD}.resourcesAllocated", "only the node may set what it has allocated"))


def validate_change(spec: Object, stored: Object, errors: Errors) -> None:
    """Rejects an update that adds or removes the virtual machine, or changes its name or volumes."""
    machine, kept = spec.get(FIELD), stored.get(FIELD)
    if machine is None or kept is None:
        if machine is not kept:
            errors.append(forbidden(f"spec.{FIELD}", "may not be added to a pod or removed from it"))
        return
    for field in _FIXED:
        if not equal(machine.get(field) or None, kept.get(field) or None):
            errors.append(forbidden(f"spec.{FIELD}.{field}", "may not be changed"))
