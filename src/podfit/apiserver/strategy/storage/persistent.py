"""Validation of the spec of a PersistentVolume, as an object of its own or inside a VolumeAttachment."""

from __future__ import annotations

import posixpath

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, names_valid
from podfit.apiserver.strategy.podspec.placement import node_selector
from podfit.apiserver.strategy.podspec.storage.claims import MODES, access_modes, positive
from podfit.apiserver.strategy.storage.persistent_sources import volume_source

_RECLAIM = ("Delete", "Recycle", "Retain")
_NOT_INLINE = "may not be specified in the context of inline volumes"


def volume_spec(spec: Object, name: str, path: str, errors: Errors) -> None:
    _modes(spec, path, errors)
    _capacity(spec.get("capacity"), f"{path}.capacity", errors)
    policy, mode = spec.get("persistentVolumeReclaimPolicy"), spec.get("volumeMode")
    if policy and policy not in _RECLAIM:
        errors.append(not_supported(f"{path}.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    if (affinity := spec.get("nodeAffinity")) is not None:
        if affinity.get("required") is None:
            errors.append(required(f"{path}.nodeAffinity.required", "must specify required node constraints"))
        else:
            node_selector(affinity["required"], f"{path}.nodeAffinity.required", errors)
    volume_source(spec, name, path, errors)
    _not_recycled(spec, path, errors)
    if storage_class := spec.get("storageClassName"):
        names_valid(storage_class, f"{path}.storageClassName", names.dns_subdomain(storage_class), errors)
    if mode is not None and mode not in MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, MODES))
    _attributes(spec, path, errors)


def inline_volume(spec: Object, path: str, errors: Errors) -> None:
    """Validates a volume without a PersistentVolume: only the fields needed to attach it are allowed."""
    errors += [forbidden(f"{path}.{field}", _NOT_INLINE) for field in ("claimRef", "capacity") if spec.get(field)]
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", "has to be specified in the context of inline volumes"))
    _modes(spec, path, errors)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy != "Retain":
        detail = "may only be Retain in the context of inline volumes"
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", detail))
    if spec.get("nodeAffinity") is not None:
        errors.append(forbidden(f"{path}.nodeAffinity", _NOT_INLINE))
    volume_source({**spec, "nodeAffinity": None}, "", path, errors)
    _not_recycled(spec, path, errors)
    if spec.get("storageClassName"):
        errors.append(forbidden(f"{path}.storageClassName", _NOT_INLINE))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        errors.append(forbidden(f"{path}.volumeMode", detail))
    _attributes(spec, path, errors)


def _modes(spec: Object, path: str, errors: Errors) -> None:
    if not spec.get("accessModes"):
        errors.append(required(f"{path}.accessModes"))
    access_modes(spec.get("accessModes") or [], path, errors)


def _capacity(capacity: Object | None, path: str, errors: Errors) -> None:
    if not capacity:
        errors.append(required(path))
    if "storage" not in (capacity or {}) or len(capacity or {}) > 1:
        errors.append(not_supported(path, capacity and dict(sorted(capacity.items())), ("storage",)))
    for name, text in (capacity or {}).items():
        value = Quantity.parse(text).value
        if value < 0:
            errors.append(invalid(f"{path}[{name}]", value, "must be a valid resource quantity"))
        positive(text, f"{path}[{name}]", errors)


def _not_recycled(spec: Object, path: str, errors: Errors) -> None:
    where = (spec.get("hostPath") or {}).get("path") or ""
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle" and where and not posixpath.normpath(where).strip("/"):
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", detail))


def _attributes(spec: Object, path: str, errors: Errors) -> None:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        errors.append(required(f"{path}.volumeAttributesClassName", "an empty string is disallowed"))
    names_valid(name, f"{path}.volumeAttributesClassName", names.dns_subdomain(name) if name else (), errors)
    if spec.get("csi") is None:
        errors.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))
