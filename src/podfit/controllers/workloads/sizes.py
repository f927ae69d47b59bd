"""Sizes (cpu and memory) of templates and pods: what a resize can change, and whether it has. Pure.

`inplace` decides when a pod is resized.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.resize.progress import Settled, progress

SIZED_FOR = "podfit.dev/sized-for"
"""On pods of workloads that resize in place: the digest of the template's sizes they were last resized to."""
_RESIZABLE = ("cpu", "memory")


# --- templates ----------------------------------------------------------------------------------------------------


def without_sizes(spec: Object) -> Object:
    """A pod spec without cpu and memory. If it is equal for two templates, a resize is sufficient."""
    bare = {**spec}
    if spec.get("virtualMachine"):
        machine = spec["virtualMachine"]
        bare["virtualMachine"] = {**machine, "resources": _without_resizable(machine.get("resources") or {})}
    for field in ("containers", "initContainers"):
        if field in bare:
            bare[field] = [
                {**container, "resources": _without_resizable(container.get("resources") or {})}
                for container in bare[field] or []
            ]
    if "resources" in bare:
        bare["resources"] = _without_resizable(bare["resources"] or {})
    return bare


def _without_resizable(resources: Object) -> Object:
    kept = {key: value for key, value in resources.items() if key not in ("requests", "limits")}
    for field in ("requests", "limits"):
        rest = {name: value for name, value in (resources.get(field) or {}).items() if name not in _RESIZABLE}
        if rest:
            kept[field] = rest
    return kept


def differ_in_size_only(before: Object, after: Object) -> bool:
    """Whether a resize turns pods of `before` into `after`; it cannot remove a request or a limit."""
    bare_before = {**before, "spec": without_sizes(before.get("spec") or {})}
    bare_after = {**after, "spec": without_sizes(after.get("spec") or {})}
    return bare_before == bare_after and _named(before) <= _named(after)


def _named(template: Object) -> set[tuple[str, str, str]]:
    """(owner, requests or limits, cpu or memory) of all sizes in the template, defaults included."""
    return {
        (whose, field, name)
        for whose, resources in _sized(template.get("spec") or {})
        for field, values in resources.items()
        for name in values
    }


def _sized(spec: Object) -> Iterator[tuple[str, dict[str, dict[str, str]]]]:
    """The sizes in a pod spec: the owner (a container's name, "" for the pod), and cpu and memory of each field."""
    for container in [*(spec.get("initContainers") or []), *_containers(spec)]:
        yield container["name"], _defaulted(container.get("resources") or {})
    if spec.get("resources"):
        yield "", _resizable(spec["resources"])


def _containers(spec: Object) -> list[Object]:
    """The containers; a template with only a virtual machine has the one that its pods get."""
    machine = spec.get("virtualMachine")
    return spec.get("containers") or ([machine] if machine else [])


def _resizable(resources: Object) -> dict[str, dict[str, str]]:
    return {
        field: {name: value for name, value in (resources.get(field) or {}).items() if name in _RESIZABLE}
        for field in ("requests", "limits")
    }


def _defaulted(resources: Object) -> dict[str, dict[str, str]]:
    """The cpu and memory of a new pod's container: a missing request defaults to the limit."""
    sizes = _resizable(resources)
    return {"requests": {**sizes["limits"], **sizes["requests"]}, "limits": sizes["limits"]}


def size_mark(template: Object) -> str:
    """A digest of the template's sizes: the same for the same amounts, however they are written."""
    named = {
        whose: {field: {name: Quantity.parse(values[name]).nanos for name in sorted(values)} for field, values in sizes}
        for whose, sizes in ((whose, sorted(sizes.items())) for whose, sizes in _sized(template.get("spec") or {}))
    }
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:10]


# --- pods ---------------------------------------------------------------------------------------------------------


def marked(pod: Object) -> str:
    """The sizes its workload last resized the pod to; "" if not recorded."""
    return str((pod["metadata"].get("annotations") or {}).get(SIZED_FOR, ""))


def size_patch(pod: Object, template: Object) -> Object | None:
    """The strategic merge patch for /resize that brings `pod` to the template's sizes.

    None if it has them, or had them: later changes by other clients (an autoscaler, a person) stay until the template
    changes.
    """
    return None if marked(pod) == size_mark(template) else _plain_patch(pod, template)


def _plain_patch(pod: Object, template: Object) -> Object | None:
    """The patch for all differences between the pod and the template, regardless of which client sized the pod."""
    spec, wanted = pod["spec"], template.get("spec") or {}
    change: Object = {}
    for field in ("containers", "initContainers"):
        have = {current["name"]: current.get("resources") or {} for current in spec.get(field) or []}
        parts = []
        for container in _containers(wanted) if field == "containers" else wanted.get(field) or []:
            delta = _delta(have.get(container["name"], {}), _defaulted(container.get("resources") or {}))
            if container["name"] in have and delta:
                parts.append({"name": container["name"], "resources": delta})
        if parts:
            change[field] = parts
    level = _delta(spec.get("resources") or {}, wanted.get("resources") or {})
    if level:
        change["resources"] = level
    return {"spec": change} if change else None


def _delta(have: Object, want: Object) -> Object:
    delta: Object = {}
    for field in ("requests", "limits"):
        old, new = have.get(field) or {}, want.get(field) or {}
        changed = {
            name: new[name]
            for name in _RESIZABLE
            if name in new and (name not in old or Quantity.parse(old[name]) != Quantity.parse(new[name]))
        }
        if changed:
            delta[field] = changed
    return delta


def is_resized(pod: Object, template: Object) -> bool:
    """Whether the pod has the template's sizes: requested, allocated and applied."""
    return size_patch(pod, template) is None and isinstance(progress(pod), Settled)


def is_up_to_date(pod: Object, template: Object) -> bool:
    """Whether the pod counts as updated: resized, or never resized and created with the template's sizes."""
    if int(pod["metadata"].get("generation") or 0) <= 1:
        return size_patch(pod, template) is None
    return is_resized(pod, template)
