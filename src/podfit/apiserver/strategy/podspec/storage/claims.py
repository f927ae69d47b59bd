"""Validation of the spec of a PersistentVolumeClaim, as an object of its own or inside a pod."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, label_selector, names_valid

ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
MODES = ("Block", "Filesystem")
_RESIZE_STATES = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
    *("NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"),
)


def access_modes(modes: list[str], path: str, errors: Errors) -> None:
    errors.extend(not_supported(f"{path}.accessModes", mode, ACCESS) for mode in modes if mode not in ACCESS)
    if "ReadWriteOncePod" in modes and any(mode in ACCESS and mode != "ReadWriteOncePod" for mode in modes):
        detail = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden(f"{path}.accessModes", detail))


def positive(text: str, path: str, errors: Errors) -> None:
    quantity = Quantity.parse(text)
    if quantity.nanos <= 0:
        errors.append(invalid(path, str(quantity), "must be greater than zero"))


def claim_spec(spec: Object, path: str, errors: Errors, stored: Object | None = None) -> None:
    """Validates a claim. Groups of data sources are not checked on updates of a claim that already has one."""
    if not spec.get("accessModes"):
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    label_selector(spec.get("selector"), f"{path}.selector", errors)
    access_modes(spec.get("accessModes") or [], path, errors)
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        errors.append(required(f"{path}.resources[storage]"))
    else:
        positive(requests["storage"], f"{path}.resources[storage]", errors)
    if spec.get("storageClassName"):
        name = spec["storageClassName"]
        names_valid(name, f"{path}.storageClassName", names.dns_subdomain(name), errors)
    mode = spec.get("volumeMode")
    if mode is not None and mode not in MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, MODES))
    _data_sources(spec, path, errors, any_group=_has_group(stored or {}))
    if spec.get("volumeAttributesClassName"):
        name = spec["volumeAttributesClassName"]
        names_valid(name, f"{path}.volumeAttributesClassName", names.dns_subdomain(name), errors)


def _data_sources(spec: Object, path: str, errors: Errors, *, any_group: bool) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _data_source(source, f"{path}.dataSource", errors, any_group=any_group)
    if reference is None:
        return
    _data_source(reference, f"{path}.dataSourceRef", errors, any_group=any_group)
    if space := reference.get("namespace"):
        names_valid(space, f"{path}.dataSourceRef.namespace", names.dns_label(space), errors)
    if source is None:
        return
    if reference.get("namespace"):
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))


def _data_source(source: Object, path: str, errors: Errors, *, any_group: bool) -> None:
    for field in ("name", "kind"):
        if not source.get(field):
            errors.append(required(f"{path}.{field}"))
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, detail))
    if group and not any_group:
        names_valid(group, f"{path}.apiGroup", names.dns_subdomain(group), errors)


def _has_group(spec: Object) -> bool:
    return any((spec.get(field) or {}).get("apiGroup") is not None for field in ("dataSource", "dataSourceRef"))


def claim_status(claim: Object) -> Errors:
    status = claim.get("status") or {}
    errors: Errors = []
    if not (claim.get("spec") or {}).get("accessModes"):
        errors.append(required("Spec.accessModes"))
    for name, text in (status.get("capacity") or {}).items():
        _amount(text, f"status.capacity[{name}]", errors)
    path = "status.allocatedResourceStatuses"
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        _allocatable(name, path, errors)
        if state not in _RESIZE_STATES:
            errors.append(not_supported(path, name, _RESIZE_STATES))
    path = "status.allocatedResources"
    for name, text in (status.get("allocatedResources") or {}).items():
        if _allocatable(name, path, errors):
            _amount(text, f"{path}[{name}]", errors)
    return errors


def _amount(text: str, path: str, errors: Errors) -> None:
    value = Quantity.parse(text).value
    if value < 0:
        errors.append(invalid(path, value, "must be a valid resource quantity"))


def _allocatable(name: str, path: str, errors: Errors) -> bool:
    """Whether the status may count this resource: the storage, or one of a domain of its own."""
    complaints = names.qualified_name(name)
    names_valid(name, path, complaints, errors)
    native = "/" not in name or "kubernetes.io/" in name
    if not complaints and native and name != "storage":
        errors.append(not_supported(path, name, ("storage",)))
    return not complaints and (not native or name == "storage")
