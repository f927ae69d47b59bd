"""Strategies of StorageClasses and VolumeAttributesClasses: the provisioner of volumes, and its parameters."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required, too_long
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.checks import IMMUTABLE, label_name, names_valid
from podfit.apiserver.strategy.kinds.plain import UncountedStrategy
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.pod.warnings import deprecated_node_label

_RECLAIM = ("Delete", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_LARGEST_PARAMETERS = 256 * 1024
_MOST_PARAMETERS = 512


class StorageClassStrategy(UncountedStrategy):
    update_checks = "wc"

    def default(self, obj: Object) -> None:
        set_default(obj, "reclaimPolicy", "Delete")
        set_default(obj, "volumeBindingMode", "Immediate")

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        _provisioner(obj.get("provisioner") or "", "provisioner", errors)
        _parameters(obj.get("parameters") or {}, errors)
        policy, mode = obj.get("reclaimPolicy"), obj.get("volumeBindingMode")
        if policy and policy not in _RECLAIM:
            errors.append(not_supported("reclaimPolicy", policy, _RECLAIM))
        if mode is None:
            errors.append(required("volumeBindingMode"))
        elif mode not in _BINDING:
            errors.append(not_supported("volumeBindingMode", mode, _BINDING))
        _topologies(obj.get("allowedTopologies") or [], errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        if (new.get("parameters") or {}) != (old.get("parameters") or {}):
            given = new.get("parameters")
            errors.append(invalid("parameters", given and dict(sorted(given.items())), IMMUTABLE))
        for field in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
            if new.get(field) != old.get(field):
                errors.append(invalid(field, new.get(field), IMMUTABLE))
        return errors

    def warnings_create(self, obj: Object) -> list[str]:
        return [
            f"allowedTopologies[{at}].matchLabelExpressions[{number}].key: {text}"
            for at, term in enumerate(obj.get("allowedTopologies") or ())
            for number, row in enumerate(term.get("matchLabelExpressions") or ())
            if (text := deprecated_node_label(row.get("key", "")))
        ]

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return self.warnings_create(new)


class VolumeAttributesClassStrategy(UncountedStrategy):
    update_checks = "cw"
    changes_first = True

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        _provisioner(obj.get("driverName") or "", "driverName", errors)
        _parameters(obj.get("parameters") or {}, errors)
        if not obj.get("parameters"):
            errors.append(required("parameters", "must contain at least one key/value pair"))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        return [
            forbidden(field, f"updates to {field} are forbidden.")
            for field in ("driverName", "parameters")
            if (new.get(field) or None) != (old.get(field) or None)
        ]


def _provisioner(name: str, path: str, errors: Errors) -> None:
    if not name:
        errors.append(required(path))
        return
    names_valid(name.lower(), path, names.qualified_name(name.lower()), errors)


def _parameters(parameters: dict[str, str], errors: Errors) -> None:
    if len(parameters) > _MOST_PARAMETERS:
        errors.append(too_long("parameters", _MOST_PARAMETERS))
        return
    if "" in parameters:
        errors.append(invalid("parameters", "", "field can not be empty."))
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _LARGEST_PARAMETERS:
        errors.append(too_long("parameters", _LARGEST_PARAMETERS))


def _topologies(terms: list[Object], errors: Errors) -> None:
    # Kubernetes' list also contains as many empty terms as given ones, so an empty term is a duplicate of each.
    seen: list[dict[str, frozenset[str]]] = [{} for _ in terms]
    for at, term in enumerate(terms):
        path = f"allowedTopologies[{at}].matchLabelExpressions"
        found: dict[str, frozenset[str]] = {}
        for number, row in enumerate(term.get("matchLabelExpressions") or ()):
            _requirement(row, f"{path}[{number}]", errors)
            if row.get("key", "") in found:
                errors.append(duplicate(f"{path}[{number}].key", row.get("key", "")))
            found[row.get("key", "")] = frozenset(row.get("values") or ())
        errors.extend(duplicate(path, "") for other in seen if other == found)
        seen.append(found)


def _requirement(row: Object, path: str, errors: Errors) -> None:
    values = row.get("values") or []
    if not values:
        errors.append(required(f"{path}.values"))
    for at, value in enumerate(values):
        if value in values[:at]:
            errors.append(duplicate(f"{path}.values[{at}]", value))
    label_name(row.get("key", ""), f"{path}.key", errors)
