"""Strategies of ResourceClaims and ResourceClaimTemplates. Their specs are immutable."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.gonames import as_go
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.strategy import meta
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, equal, labels, names_valid
from podfit.apiserver.strategy.devices.names import (
    MOST_REQUESTS,
    binding_conditions,
    configuration,
    each,
    fully_qualified,
    label,
    selector,
    toleration,
    unique,
)
from podfit.apiserver.strategy.devices.reported import identity, named_device, reported_devices, share
from podfit.apiserver.strategy.kinds.plain import UncountedStrategy
from podfit.apiserver.strategy.podspec.placement import node_selector
from podfit.apiserver.strategy.podspec.storage.volume_plugins import nothing_else

GROUP = "resource.k8s.io"
_MODES = ("All", "ExactCount")
_SOURCES = ("FromClaim", "FromClass")
_MOST, _MOST_ALTERNATIVES, _MOST_USERS = 32, 8, 256
_NO_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_ONE_KIND = "exactly one of `exactly` or `firstAvailable` is required"


def default_claim(spec: Object) -> None:
    for request in (spec.setdefault("devices", {}) or {}).get("requests") or ():
        for row in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if row is None:
                continue
            row["allocationMode"] = row.get("allocationMode") or "ExactCount"
            if row["allocationMode"] == "ExactCount" and not row.get("count"):
                row["count"] = 1
            for row_toleration in row.get("tolerations") or ():
                row_toleration["operator"] = row_toleration.get("operator") or "Equal"


class ResourceClaimStrategy(Strategy):
    update_checks = "wc"
    has_generation = False

    def default(self, obj: Object) -> None:
        default_claim(obj.setdefault("spec", {}))

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource == "status":
            meta.reset_for_status(new, old)
            _drop_deallocated(new.get("status") or {}, old.get("status") or {})
        super().prepare_update(new, old, subresource)

    def validate_create(self, obj: Object) -> Errors:
        errors = self._whole(obj.get("metadata") or {})
        claim(obj.get("spec") or {}, "spec", errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        if equal(new.get("spec"), old.get("spec")):
            return []
        return [invalid("spec", as_go(new.get("spec"), type_named("ResourceClaimSpec", GROUP)), IMMUTABLE)]

    def validate_status(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        status, stored = new.get("status") or {}, old.get("status") or {}
        users = status.get("reservedFor") or []
        unique(users, _MOST_USERS, _user, lambda row: row.get("uid"), "status.reservedFor", errors)
        allocation, before = status.get("allocation"), stored.get("allocation")
        reported_devices(status.get("devices") or [], _allocated(status), errors)
        if users and allocation is None:
            errors.append(forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
        elif users and (new.get("metadata") or {}).get("deletionTimestamp"):
            known = stored.get("reservedFor") or []
            if any(row not in known for row in users):
                detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
                errors.append(forbidden("status.reservedFor", detail))
        if allocation is not None and before is not None:
            if not equal(allocation, before):
                shown = as_go(allocation, type_named("AllocationResult", GROUP))
                errors.append(invalid("status.allocation", shown, IMMUTABLE))
        elif allocation is not None:
            _allocation(allocation, _requests((new.get("spec") or {}).get("devices") or {}), errors)
        return errors


class ResourceClaimTemplateStrategy(UncountedStrategy):
    update_checks = "wc"

    def default(self, obj: Object) -> None:
        default_claim(obj.setdefault("spec", {}).setdefault("spec", {}))

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        _template_metadata(spec.get("metadata") or {}, "spec.metadata", errors)
        claim(spec.get("spec") or {}, "spec.spec", errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        if equal(new.get("spec"), old.get("spec")):
            return []
        return [invalid("spec", as_go(new.get("spec"), type_named("ResourceClaimTemplateSpec", GROUP)), IMMUTABLE)]


# --- requests ---------------------------------------------------------------------------------------------------------


def claim(spec: Object, path: str, errors: Errors) -> None:
    devices, path = spec.get("devices") or {}, f"{path}.devices"
    known = _requests(devices)

    def named(row: Object, where: str, found: Errors) -> None:
        _references(row.get("requests") or [], known, f"{where}.requests", found)

    def constraint(row: Object, where: str, found: Errors) -> None:
        named(row, where, found)
        _constraint(row, where, found)

    def config(row: Object, where: str, found: Errors) -> None:
        named(row, where, found)
        configuration(row, where, found)

    requests = devices.get("requests")
    unique(requests, MOST_REQUESTS, _request, lambda row: row.get("name", ""), f"{path}.requests", errors)
    each(devices.get("constraints"), _MOST, constraint, f"{path}.constraints", errors)
    each(devices.get("config"), _MOST, config, f"{path}.config", errors)


def _requests(devices: Object) -> dict[str, set[str]]:
    return {
        row.get("name", ""): {alternative.get("name", "") for alternative in row.get("firstAvailable") or ()}
        for row in devices.get("requests") or ()
    }


def _references(given: list[str], known: dict[str, set[str]], path: str, errors: Errors) -> None:
    def reference(name: str, where: str, found: Errors) -> None:
        _reference(name, known, where, found)

    unique(given, MOST_REQUESTS, reference, str, path, errors)


def _reference(name: str, known: dict[str, set[str]], path: str, errors: Errors) -> None:
    parts = name.split("/")
    if len(parts) <= 2:
        for part in parts:
            label(part, path, errors)
    if len(parts) > 2 or parts[0] not in known or (len(parts) == 2 and parts[1] not in known[parts[0]]):
        errors.append(invalid(path, name, _NO_REQUEST))


def _request(row: Object, path: str, errors: Errors) -> None:
    label(row.get("name", ""), f"{path}.name", errors)
    exactly, first = row.get("exactly"), row.get("firstAvailable") or []
    if exactly is None and not first:
        errors.append(required(path, _ONE_KIND))
    elif exactly is not None and first:
        errors.append(invalid(path, None, f"{_ONE_KIND}, but multiple fields are set"))
    elif exactly is not None:
        _wanted(exactly, f"{path}.exactly", errors)
    else:
        where = f"{path}.firstAvailable"
        unique(first, _MOST_ALTERNATIVES, _alternative, lambda alternative: alternative.get("name", ""), where, errors)


def _alternative(row: Object, path: str, errors: Errors) -> None:
    label(row.get("name", ""), f"{path}.name", errors)
    _wanted(row, path, errors)


def _wanted(row: Object, path: str, errors: Errors) -> None:
    chosen, mode, count = row.get("deviceClassName", ""), row.get("allocationMode", ""), row.get("count", 0)
    if chosen:
        names_valid(chosen, f"{path}.deviceClassName", names.dns_subdomain(chosen), errors)
    else:
        errors.append(required(f"{path}.deviceClassName"))
    each(row.get("selectors"), _MOST, selector, f"{path}.selectors", errors)
    if mode == "All" and count:
        errors.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    elif mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    for at, entry in enumerate(row.get("tolerations") or ()):
        toleration(entry, f"{path}.tolerations[{at}]", errors)


def _constraint(row: Object, path: str, errors: Errors) -> None:
    for field in ("matchAttribute", "distinctAttribute"):
        if row.get(field) is not None:
            fully_qualified(row[field], f"{path}.{field}", errors)
            return
    detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    errors.append(required(path, detail))


# --- allocation -------------------------------------------------------------------------------------------------------


def _user(row: Object, path: str, errors: Errors) -> None:
    errors += [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not row.get(field)]


def _allocated(status: Object) -> list[dict[str, str]]:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return [identity(row) for row in results]


def _drop_deallocated(status: Object, stored: Object) -> None:
    """Removes the status that drivers reported for devices that are no longer allocated."""
    kept = _allocated(status)
    gone = [allocated for allocated in _allocated(stored) if allocated not in kept]
    rows = status.get("devices") or []
    left = [row for row in rows if identity(row) not in gone]
    if left:
        status["devices"] = left
    else:
        status.pop("devices", None)


def _template_metadata(given: Object, path: str, errors: Errors) -> None:
    meta.validate_annotations(given.get("annotations") or {}, f"{path}.annotations", errors)
    labels(given.get("labels"), f"{path}.labels", errors)
    nothing_else(given, path, errors)


def _allocation(allocation: Object, known: dict[str, set[str]], errors: Errors) -> None:
    devices, path = allocation.get("devices") or {}, "status.allocation.devices"

    def result(row: Object, where: str, found: Errors) -> None:
        _reference(row.get("request", ""), known, f"{where}.request", found)
        named_device(row, where, found)
        binding_conditions(row, where, found)
        share(row, where, found)

    def config(row: Object, where: str, found: Errors) -> None:
        source = row.get("source", "")
        if not source:
            found.append(required(f"{where}.source"))
        elif source not in _SOURCES:
            found.append(not_supported(f"{where}.source", source, _SOURCES))
        _references(row.get("requests") or [], known, f"{where}.requests", found)
        configuration(row, where, found)

    each(devices.get("results"), _MOST, result, f"{path}.results", errors)
    each(devices.get("config"), 2 * _MOST, config, f"{path}.config", errors)
    if allocation.get("nodeSelector") is not None:
        node_selector(allocation["nodeSelector"], "status.allocation.nodeSelector", errors)
