"""The resize endpoint of pods: the changes it accepts, and the resizes that are rejected before any node sees them."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.resources import is_sidecar, qos_class
from podfit.api.resize.dialects import LABEL
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid
from podfit.apiserver.strategy import meta
from podfit.apiserver.strategy.checks import Errors, equal, same_fields
from podfit.apiserver.strategy.pod.sizes_only import LISTS, RESIZABLE, differs_in_amounts_only, pairs
from podfit.apiserver.strategy.podspec.annotations import MIRROR
from podfit.apiserver.strategy.podspec.spec import validate_pod, validate_resized

_WHOLE = "[]"
"""How Kubernetes prints the empty path of errors that concern the pod as a whole."""


def prepare(new: Object, old: Object, sizes_only: bool) -> bool:
    """Resets all fields except resources and resize policies. Nothing is reset if containers are added or removed, and
    no list in which containers are renamed or reordered: validation reports these changes. `sizes_only`: whether the
    two specs differ in sizes only. Returns the same for the result."""
    requested, stored = new.get("spec") or {}, old["spec"]
    if not sizes_only:
        if any(len(requested.get(key) or ()) != len(stored.get(key) or ()) for key in LISTS):
            return False
        sizes_only = all(_same_names(requested, stored, key) for key in LISTS)
        new["spec"] = _reset(requested, stored)
    meta.keep(new, old, "status")
    annotations = old["metadata"].get("annotations")
    meta.reset_for_status(new, old)
    if annotations and LABEL in annotations:
        # The annotation names the dialect of the last resize, whose rules the node applies; this resize is native.
        new["metadata"]["annotations"] = {key: value for key, value in annotations.items() if key != LABEL}
    return sizes_only


def _same_names(requested: Object, stored: Object, key: str) -> bool:
    return [each.get("name") for each in requested.get(key) or ()] == [each["name"] for each in stored.get(key) or ()]


def _reset(requested: Object, stored: Object) -> Object:
    spec = dict(stored)
    for key in LISTS:
        if not _same_names(requested, stored, key):
            spec[key] = requested[key]
        elif stored.get(key):
            spec[key] = [_resized(mine, kept) for mine, kept in zip(requested[key], stored[key], strict=True)]
    meta.keep(spec, requested, "resources")
    if stored.get("virtualMachine") and requested.get("virtualMachine"):
        spec["virtualMachine"] = _resized(requested["virtualMachine"], stored["virtualMachine"])
    return spec


def _resized(requested: Object, stored: Object) -> Object:
    container = dict(stored)
    meta.keep(container, requested, "resources", "resizePolicy")
    return container


def validate(new: Object, old: Object, errors: Errors, sizes_only: bool) -> None:
    """Validates a resize; `errors` has those about metadata. A pod that can never be resized gets a single error."""
    stored = old["spec"]
    if MIRROR in (old["metadata"].get("annotations") or {}):
        errors[:] = [forbidden(_WHOLE, "static pods cannot be resized")]
        return
    if (stored.get("os") or {}).get("name") == "windows":
        errors[:] = [forbidden(_WHOLE, "windows pods cannot be resized")]
        return
    if sizes_only:
        validate_resized(new["spec"], stored, errors)
    else:
        validate_pod(new, errors, old)
    old_status = old.get("status") or {}
    if (old_status.get("qosClass") or qos_class(old)) != qos_class(new):
        shown = (new.get("status") or {}).get("qosClass", "")
        errors.append(invalid("spec", shown, "Pod QOS Class may not change as a result of resizing"))
    if not _node_supports_resize(old_status):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    mine, before = new["spec"].get("resources"), stored.get("resources")
    _pod_level(mine, before, errors)
    if old_status.get("nodeAllocatableResourceClaimStatuses"):
        errors.append(forbidden("spec", "pods with node allocatable resource claims cannot be resized"))
    if sizes_only:
        if not all(differs_in_amounts_only(*pair) for key in LISTS for pair in pairs(new["spec"], stored, key)):
            _containers(new["spec"], stored, errors)
    elif _same_containers(new["spec"], stored, errors):
        _containers(new["spec"], stored, errors)
    if not errors and not _names_any(mine) and not _names_any(before) and mine != before:
        errors.append(forbidden("spec", "only cpu and memory resources are mutable"))


def _node_supports_resize(status: Object) -> bool:
    """Whether the node's agent supports resizing: it then reports resources for every running container."""
    for container in status.get("containerStatuses") or ():
        if (container.get("state") or {}).get("running") is not None:
            return container.get("resources") is not None
    return True


def _pod_level(mine: Object | None, stored: Object | None, errors: Errors) -> None:
    if not _names_any(mine) and not _names_any(stored):
        return
    if mine is None:
        errors.append(forbidden("spec.resources", "pod-level resources cannot be removed"))
        return
    before = stored or {}
    for kind in ("requests", "limits"):
        if _removed(mine.get(kind), before.get(kind)):
            detail = f"pod-level resource {kind} cannot be removed"
            errors.append(forbidden(f"spec.resources.{kind}", detail))
    if not equal(_fixed(mine), _fixed(before)):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable at pod-level"))


def _names_any(resources: Object | None) -> bool:
    return bool(resources and (resources.get("requests") or resources.get("limits")))


def _fixed(resources: Object) -> Object:
    """The pod-level resources that a resize may not change."""
    rest: Object = {"claims": resources.get("claims") or []}
    for kind in ("requests", "limits"):
        amounts = resources.get(kind) or {}
        rest[kind] = {name: amount for name, amount in amounts.items() if name not in RESIZABLE}
    return rest


def _removed(new: Object | None, old: Object | None) -> bool:
    return bool(old and not old.keys() <= (new or {}).keys())


def masked_resources(new: Object, old: Object) -> Object:
    """The new resources with the old cpu and memory, so that a remaining difference is another change. Claims are
    dropped, so a container that has any never compares equal."""
    masked: Object = {}
    for kind in ("requests", "limits"):
        before = old.get(kind) or {}
        rest = {name: amount for name, amount in (new.get(kind) or {}).items() if name not in RESIZABLE}
        rest.update((name, before[name]) for name in RESIZABLE if name in before)
        if rest or before:
            masked[kind] = rest
    return masked


def _same_containers(new: Object, old: Object, errors: Errors) -> bool:
    same = True
    for key in LISTS:
        mine, stored = new.get(key) or [], old.get(key) or []
        if len(mine) != len(stored):
            errors.append(forbidden(f"spec.{key}", f"{key} may not be added or removed on resize"))
            same = False
            continue
        for at, (one, other) in enumerate(zip(mine, stored, strict=True)):
            if one.get("name") != other.get("name"):
                detail = f"{key} may not be renamed or reordered on resize"
                errors.append(forbidden(f"spec.{key}[{at}].name", detail))
                same = False
    return same


def _containers(new: Object, old: Object, errors: Errors) -> None:
    for key in ("initContainers", "containers"):
        for at, stored in enumerate(old.get(key) or ()):
            _not_removed(
                new[key][at].get("resources") or {}, stored.get("resources") or {}, f"spec.{key}[{at}]", errors
            )
    for mine, stored in zip(new["containers"], old["containers"], strict=True):
        if not _only_resized(mine, stored):
            errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    for at, stored in enumerate(old.get("initContainers") or ()):
        _init_container(new["initContainers"][at], stored, f"spec.initContainers[{at}]", errors)


def _not_removed(new: Object, old: Object, path: str, errors: Errors) -> None:
    for kind in ("requests", "limits"):
        if _removed(new.get(kind), old.get(kind)):
            errors.append(forbidden(f"{path}.resources.{kind}", f"resource {kind} cannot be removed"))


def _only_resized(new: Object, old: Object) -> bool:
    before = old.get("resources") or {}
    masked = masked_resources(new.get("resources") or {}, before)
    return equal(masked, before) and (new is old or same_fields(new, old, but="resources"))


def _init_container(new: Object, old: Object, path: str, errors: Errors) -> None:
    if not _only_resized(new, old):
        detail = "only cpu and memory resources for init or sidecar containers are mutable"
        errors.append(forbidden(path, detail))
    if new is not old and not is_sidecar(old) and not equal(new, old):
        policies = new.get("resizePolicy") or ()
        if any(policy.get("restartPolicy") == "RestartContainer" for policy in policies):
            detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            errors.append(forbidden(path, detail))
