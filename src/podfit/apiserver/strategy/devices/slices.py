"""Strategies of DeviceClasses and ResourceSlices: the available devices, and the classes in which they can be
claimed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.gonames import as_go
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required, too_long, too_many
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, label_name, names_valid
from podfit.apiserver.strategy.devices.names import (
    EFFECTS,
    binding_conditions,
    configuration,
    each,
    label,
    pool_name,
    qualified,
    selector,
    unique,
)
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.podspec.placement import node_selector
from podfit.apiserver.strategy.resourcelists import is_extended
from podfit.apiserver.strategy.storage.csi import driver_name

_MOST, _MOST_DEVICES, _MOST_SPECIAL, _MOST_TAINTS = 32, 128, 64, 16
_MOST_COUNTER_SETS, _MOST_CONSUMED, _MOST_COUNTERS = 8, 2, 32
_LONGEST_VALUE = 64
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_DEVICE_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NUMBER, _WORD = r"(0|[1-9]\d*)", r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_WORD}(\.{_WORD})*)?(\+{_BUILD}(\.{_BUILD})*)?", re.ASCII)
_LISTS = ("bools", "ints", "strings", "versions")


class DeviceClassStrategy(Strategy):
    update_checks = "wc"
    has_status = False

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        each(spec.get("selectors"), _MOST, selector, "spec.selectors", errors)
        each(spec.get("config"), _MOST, configuration, "spec.config", errors)
        name = spec.get("extendedResourceName")
        if name is not None and not is_extended(name):
            errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
        return errors


class ResourceSliceStrategy(Strategy):
    update_checks = "c"
    has_status = False

    def default(self, obj: Object) -> None:
        for device in (obj.get("spec") or {}).get("devices") or ():
            for taint in device.get("taints") or ():
                set_default(taint, "timeAdded", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _drop_unreleased(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        _drop_unreleased(new)
        super().prepare_update(new, old, subresource)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        driver_name(spec.get("driver", ""), "spec.driver", errors)
        _pool(spec.get("pool") or {}, errors)
        return errors

    def validate_create(self, obj: Object) -> Errors:
        return super().validate_create(obj) + _contents(obj.get("spec") or {})

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        mine, stored = new.get("spec") or {}, old.get("spec") or {}
        names_of = ((mine.get("pool") or {}).get("name"), (stored.get("pool") or {}).get("name"))
        if names_of[0] != names_of[1]:
            errors.append(invalid("spec.pool.name", names_of[0], IMMUTABLE))
        for field in ("driver", "nodeName"):
            if mine.get(field) != stored.get(field):
                errors.append(invalid(f"spec.{field}", mine.get(field), IMMUTABLE))
        return errors + _contents(mine)


def _drop_unreleased(obj: Object) -> None:
    """Drops the fields of feature gates that are off by default, as Kubernetes does."""
    for device in (obj.get("spec") or {}).get("devices") or ():
        device.pop("nodeAllocatableResourceMappings", None)
        for value in (device.get("attributes") or {}).values():
            for field in _LISTS:
                value.pop(field, None)


def _pool(pool: Object, errors: Errors) -> None:
    pool_name(pool.get("name", ""), "spec.pool.name", errors)
    if pool.get("resourceSliceCount", 0) <= 0:
        count = pool.get("resourceSliceCount", 0)
        errors.append(invalid("spec.pool.resourceSliceCount", count, "must be greater than zero"))
    if pool.get("generation", 0) < 0:
        errors.append(invalid("spec.pool.generation", pool["generation"], "must be greater than or equal to zero"))


def _contents(spec: Object) -> Errors:
    errors: Errors = []
    given = _places(spec, "spec", _PLACES, errors)
    selected = spec.get("nodeSelector")
    if selected is not None and len(selected.get("nodeSelectorTerms") or ()) != 1:
        struct = type_named("NodeSelector").fields["nodeSelectorTerms"].type
        shown = as_go(selected.get("nodeSelectorTerms"), struct)
        detail = "must have exactly one node selector term"
        errors.append(invalid("spec.nodeSelector.nodeSelectorTerms", shown, detail))
    if not given:
        errors.append(required("spec", _ONE_PLACE))
    elif len(given) > 1:
        shown = "{" + ", ".join(f"`{field}`" for field in given) + "}"
        errors.append(invalid("spec", shown, f"{_ONE_PLACE}, but multiple fields are set"))
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    own_places = bool(spec.get("perDeviceNodeSelection"))

    def device(row: Object, path: str, found: Errors) -> None:
        _device(row, path, own_places, found)

    devices = spec.get("devices") or []
    most = _MOST_SPECIAL if any(map(_special, devices)) else _MOST_DEVICES
    unique(devices, most, device, lambda row: row.get("name", ""), "spec.devices", errors)
    counters = spec.get("sharedCounters")
    unique(counters, _MOST_COUNTER_SETS, _counter_set, lambda row: row.get("name", ""), "spec.sharedCounters", errors)
    return errors


def _places(row: Object, path: str, fields: tuple[str, ...], errors: Errors) -> list[str]:
    """Validates the location fields of devices, and returns those that are set."""
    given = []
    for field in fields:
        value = row.get(field)
        if value is None:
            continue
        if field == "nodeName":
            if value:
                names_valid(value, f"{path}.nodeName", names.dns_subdomain(value), errors)
            else:
                empty = "must be either unset or set to a non-empty string" if path == "spec" else "must not be empty"
                errors.append(invalid(f"{path}.nodeName", value, empty))
                continue
        elif field == "nodeSelector":
            node_selector(value, f"{path}.nodeSelector", errors)
        elif not value:
            errors.append(invalid(f"{path}.{field}", value, "must be either unset or set to true"))
            continue
        given.append(field)
    return given


def _special(device: Object) -> bool:
    return bool(device.get("taints") or device.get("consumesCounters"))


def _device(device: Object, path: str, own_places: bool, errors: Errors) -> None:
    label(device.get("name", ""), f"{path}.name", errors)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    if len(attributes) + len(capacity) > _MOST:
        detail = f"the total number of attributes and capacities must not exceed {_MOST}"
        errors.append(invalid(path, len(attributes) + len(capacity), detail))
    for key, row in attributes.items():
        qualified(key, f"{path}.attributes", errors)
        _attribute(row, f"{path}.attributes[{key}]", errors)
    for key, row in capacity.items():
        qualified(key, f"{path}.capacity", errors)
        if row.get("requestPolicy") is not None and not device.get("allowMultipleAllocations"):
            errors.append(forbidden(f"{path}.capacity[{key}].requestPolicy", "allowMultipleAllocations must be true"))
    each(device.get("taints"), _MOST_TAINTS, _taint, f"{path}.taints", errors)
    consumed, where = device.get("consumesCounters"), f"{path}.consumesCounters"
    unique(consumed, _MOST_CONSUMED, _consumption, lambda row: row.get("counterSet", ""), where, errors)
    _device_place(device, path, own_places, errors)
    binding_conditions(device, path, errors)


def _device_place(device: Object, path: str, own_places: bool, errors: Errors) -> None:
    if own_places:
        given = _places(device, path, _PLACES[:3], errors)
        if not given:
            errors.append(required(path, _DEVICE_PLACE))
        elif len(given) > 1:
            shown = "{" + ", ".join(f"`{field}`" for field in given) + "}"
            errors.append(invalid(path, shown, _DEVICE_PLACE))
    elif any(device.get(field) is not None for field in _PLACES[:3]):
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
            "the ResourceSlice spec"
        )
        errors.append(invalid(path, None, detail))


def _attribute(row: Object, path: str, errors: Errors) -> None:
    given = [field for field in ("bool", "int", "string", "version") if row.get(field) is not None]
    for field in given:
        value, where = row[field], f"{path}.{field}"
        if field == "version" and not _VERSION.fullmatch(value):
            errors.append(invalid(where, value, "must be a string compatible with semver.org spec 2.0.0"))
        if isinstance(value, str) and len(value.encode()) > _LONGEST_VALUE:
            errors.append(too_long(where, _LONGEST_VALUE))
    if len(given) != 1:
        shown = as_go(row, type_named("DeviceAttribute", "resource.k8s.io")) if given else ""
        errors.append(invalid(path, shown, "exactly one value must be specified"))


def _taint(row: Object, path: str, errors: Errors) -> None:
    label_name(row.get("key", ""), f"{path}.key", errors)
    if row.get("value"):
        names_valid(row["value"], f"{path}.value", names.label_value(row["value"]), errors)
    if not row.get("effect"):
        errors.append(required(f"{path}.effect"))
    elif row["effect"] not in EFFECTS:
        errors.append(not_supported(f"{path}.effect", row["effect"], EFFECTS))


def _counter_set(row: Object, path: str, errors: Errors) -> None:
    _counters(row, "name", path, errors)


def _consumption(row: Object, path: str, errors: Errors) -> None:
    _counters(row, "counterSet", path, errors)


def _counters(row: Object, name: str, path: str, errors: Errors) -> None:
    if row.get(name):
        label(row[name], f"{path}.{name}", errors)
    else:
        errors.append(required(f"{path}.{name}"))
    counters = row.get("counters") or {}
    if not counters:
        errors.append(required(f"{path}.counters"))
    elif len(counters) > _MOST_COUNTERS:
        errors.append(too_many(f"{path}.counters", len(counters), _MOST_COUNTERS))
    else:
        for key in counters:
            label(key, f"{path}.counters", errors)
