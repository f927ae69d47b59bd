"""Strategies of LimitRange and ResourceQuota."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.api.pods.resources import amounts
from podfit.api.quantity import Quantity
from podfit.api.status import duplicate, invalid, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy import resourcelists
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, names_valid
from podfit.kit.uids import new_uid

_LISTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_ONE = Quantity.of_units(1)
_BIG = 2**63 // 1000
_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
)
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_LIMITED = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": ""}
"""Resources that quotas limit, and the short name with which a quota can limit requests of each."""
_POD_COMPUTE = frozenset(
    ("pods", *(kind + name for kind in ("", "requests.", "limits.") for name in ("cpu", "memory")))
)


class LimitRangeStrategy(Strategy):
    update_checks = "w"
    has_generation = False
    has_status = False
    create_on_update = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("limits"):
            # The list is always shown; Kubernetes returns stored empty lists as null.
            spec["limits"] = None
        for item in spec["limits"] or ():
            for kind in _LISTS:
                resourcelists.normalise(item.get(kind))
            if item.get("type") == "Container":
                self._container(item)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        meta = obj.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = new_uid()

    def _container(self, item: Object) -> None:
        """Sets defaults of a container item: limits from max, and requests from limits or, without these, from min."""
        limits, requests = item.get("default") or {}, item.get("defaultRequest") or {}
        for name, amount in (item.get("max") or {}).items():
            limits.setdefault(name, amount)
        for source in (limits, item.get("min") or {}):
            for name, amount in source.items():
                requests.setdefault(name, amount)
        if limits or "default" in item:
            item["default"] = limits
        if requests or "defaultRequest" in item:
            item["defaultRequest"] = requests

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for at, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            path, kind = f"spec.limits[{at}]", item.get("type", "")
            complaints = names.qualified_name(kind)
            if not complaints and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
                complaints = ("must be a standard limit type or fully qualified",)
            names_valid(kind, f"{path}.type", complaints, errors)
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            self._item(item, kind, path, errors)
        return errors

    def _item(self, item: Object, kind: str, path: str, errors: Errors) -> None:
        check = resourcelists.container_resource_name if kind in ("Pod", "Container") else resourcelists.resource_name
        lists: dict[str, dict[str, Quantity]] = {}
        for field in _LISTS:
            listed = item.get(field) or {}
            if kind == "Pod" and field in ("default", "defaultRequest"):
                if listed:
                    errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
                listed = {}
            for name in listed:
                names_valid(name, f"{path}.{field}[{name}]", check(name), errors)
            lists[field] = amounts(listed)
            bounds = lists.get("min", {}).keys() | lists["max"].keys()
            if field == "defaultRequest" and kind == "PersistentVolumeClaim" and "storage" not in bounds:
                detail = "either minimum or maximum storage value is required, but neither was provided"
                errors.append(required(f"{path}.limits", detail))
        for name in dict.fromkeys(name for listed in lists.values() for name in listed):
            _consistent(name, [lists[field].get(name) for field in _LISTS], path, errors)


def _consistent(name: str, values: list[Quantity | None], path: str, errors: Errors) -> None:
    """Checks min, max, defaults and ratio of one resource against each other; `values` in the order of `_LISTS`."""
    most, least, default, request, ratio = values

    def wrong(field: str, value: Quantity, detail: str) -> None:
        errors.append(invalid(f"{path}.{field}[{name}]", str(value), detail))

    if least is not None and most is not None and least > most:
        wrong("min", least, f"min value {least} is greater than max value {most}")
    if request is not None and least is not None and least > request:
        wrong("defaultRequest", request, f"min value {least} is greater than default request value {request}")
    if request is not None and most is not None and request > most:
        wrong("defaultRequest", request, f"default request value {request} is greater than max value {most}")
    if request is not None and default is not None and request > default:
        detail = f"default request value {request} is greater than default limit value {default}"
        wrong("defaultRequest", request, detail)
    if default is not None and least is not None and least > default:
        wrong("default", least, f"min value {least} is greater than default value {default}")
    if default is not None and most is not None and default > most:
        wrong("default", most, f"default value {default} is greater than max value {most}")
    if ratio is not None:
        if ratio < _ONE:
            wrong("maxLimitRequestRatio", ratio, f"ratio {ratio} is less than 1")
        if least is not None and most is not None:
            bound, requested = _ratio(ratio, least, most)
            if requested > bound:
                detail = f"ratio {ratio} is greater than max/min = {_go_float(bound)}"
                wrong("maxLimitRequestRatio", ratio, detail)
    if (
        not resourcelists.is_overcommit_allowed(name)
        and default is not None
        and request is not None
        and default != request
    ):
        wrong(
            "defaultRequest", request, f"default value {default} must equal to defaultRequest value {request} in {name}"
        )


def _ratio(ratio: Quantity, least: Quantity, most: Quantity) -> tuple[float, float]:
    """The largest ratio that min and max allow, and the requested one."""
    small = max(ratio.value, least.value, most.value) < _BIG
    low, high = (least.milli, most.milli) if small else (least.value, most.value)
    requested = ratio.milli / 1000 if small else float(ratio.value)
    return (high / low if low else float("inf")), requested


def _go_float(value: float) -> str:
    return "+Inf" if value == float("inf") else f"{value:f}"


class ResourceQuotaStrategy(Strategy):
    update_checks = "c"
    has_generation = False

    def default(self, obj: Object) -> None:
        resourcelists.normalise(obj.setdefault("spec", {}).get("hard"))
        status = obj.get("status") or {}
        resourcelists.normalise(status.get("hard"))
        resourcelists.normalise(status.get("used"))

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        _hard(spec.get("hard"), "spec.hard", errors)
        if spec.get("scopes"):
            self._scopes(spec, errors)
        if spec.get("scopeSelector"):
            self._selector(spec, errors)
        return errors

    def warnings_create(self, obj: Object) -> list[str]:
        """Warns of a quota for requests above that for limits: it cannot be used up, because limits are never below
        requests."""
        hard = (obj.get("spec") or {}).get("hard") or {}
        found = []
        for name, short in _LIMITED.items():
            most, requested = hard.get(f"limits.{name}"), f"requests.{name}"
            if requested not in hard:
                requested = short
            if most is not None and requested in hard and Quantity.parse(hard[requested]) > Quantity.parse(most):
                found.append(
                    f"ResourceQuota {requested} ({hard[requested]}) should be less than limits.{name} ({most})"
                )
        return found

    def _scopes(self, spec: Object, errors: Errors) -> None:
        scopes = spec["scopes"]
        for scope in scopes:
            if scope not in _SCOPES:
                errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
            for name in sorted(spec.get("hard") or ()):
                if resourcelists.is_standard_quota_name(name) and not _covers(scope, name):
                    errors.append(invalid("spec.scopes", scopes, "unsupported scope applied to resource"))
        for pair in _CONFLICTS:
            if pair <= set(scopes):
                errors.append(invalid("spec.scopes", scopes, "conflicting scopes"))

    def _selector(self, spec: Object, errors: Errors) -> None:
        path = "spec.scopeSelector.matchExpressions"
        requirements = spec["scopeSelector"].get("matchExpressions") or ()
        for requirement in requirements:
            scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
            values = requirement.get("values") or []
            if scope not in _SCOPES:
                errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
            for name in sorted(spec.get("hard") or ()):
                if resourcelists.is_standard_quota_name(name) and not _covers(scope, name):
                    errors.append(invalid(path, _as_go(requirements), "unsupported scope applied to resource"))
            if scope in _SCOPES and scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
                detail = (
                    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort "
                    "or ResourceQuotaScopeCrossNamespacePodAffinity"
                )
                errors.append(invalid(f"{path}.operator", operator, detail))
            if operator in ("In", "NotIn"):
                if not values:
                    detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                    errors.append(required(f"{path}.values", detail))
            elif operator in ("Exists", "DoesNotExist"):
                if values:
                    detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                    errors.append(invalid(f"{path}.values", values, detail))
            else:
                errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
        for pair in _CONFLICTS:
            if pair <= {requirement.get("scopeName") for requirement in requirements}:
                errors.append(invalid(path, spec.get("scopes"), "conflicting scopes"))

    def validate_change(self, new: Object, old: Object) -> Errors:
        mine, stored = ((each.get("spec") or {}).get("scopes") or [] for each in (new, old))
        return [] if set(mine) == set(stored) else [invalid("spec.scopes", mine, IMMUTABLE)]

    def validate_status(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        status = new.get("status") or {}
        for kind in ("hard", "used"):
            _hard(status.get(kind), f"status.{kind}", errors)
        return errors


def _as_go(requirements: Sequence[Object]) -> Object:
    """A scope selector with the names of the Go structs, as shown in messages."""
    fields = ("scopeName", "operator")
    rows = [
        {**{field[0].upper() + field[1:]: row.get(field, "") for field in fields}, "Values": row.get("values")}
        for row in requirements
    ]
    return {"MatchExpressions": rows}


def _hard(listed: Object | None, path: str, errors: Errors) -> None:
    for name, text in (listed or {}).items():
        here = f"{path}[{name}]"
        names_valid(name, here, resourcelists.quota_resource_name(name), errors)
        resourcelists.amount(name, Quantity.parse(text), here, errors)


def _covers(scope: str, name: str) -> bool:
    """Whether a scope applies to a resource."""
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    if scope in _SCOPES:
        return name in _POD_COMPUTE
    return True
