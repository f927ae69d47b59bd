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


def access_modes(modes: list[str], path: str, errors: Errors) -> None:
    errors.extend(not_supported(f"{path}.accessModes", mode, ACCESS) for mode in modes if mode not in ACCESS)
    if "ReadWriteOncePod" in modes and any(mode in ACCESS and mode != "ReadWriteOncePod" for mode in modes):
        detail = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden(f"{path}.accessModes", detail))


def positive(text: str, path: str, errors: Errors) -> None:
    quantity = Quantity.parse(text)
    if quantity.nanos <= 0:
        errors.append(invalid(path, str(quantity), "must be greater than zero"))


def claim_spec(spec: Object, path: str, errors: Errors) -> None:
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
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field) is not None:
            _data_source(spec[field], f"{path}.{field}", errors)
    _same_source(spec.get("dataSource"), spec.get("dataSourceRef"), path, errors)
    if spec.get("volumeAttributesClassName"):
        name = spec["volumeAttributesClassName"]
        names_valid(name, f"{path}.volumeAttributesClassName", names.dns_subdomain(name), errors)


def _same_source(source: Object | None, reference: Object | None, path: str, errors: Errors) -> None:
    if source is None or reference is None:
        return
    # Kubernetes prints no value here.
    if reference.get("namespace"):
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))


def _data_source(source: Object, path: str, errors: Errors) -> None:
    for field in ("name", "kind"):
        if not source.get(field):
            errors.append(required(f"{path}.{field}"))
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, detail))
    if group:
        names_valid(group, f"{path}.apiGroup", names.dns_subdomain(group), errors)
