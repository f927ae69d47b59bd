"""Resource lists: canonical form, allowed names and amounts, requests against limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.pods.resources import HUGE_PAGES_PREFIX, is_pod_level_resource
from podfit.api.quantity import NANO, Quantity, QuantityError
from podfit.api.status import NOT_FOUND, FieldError, duplicate, go_quote, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.api.text.remember import remembered
from podfit.apiserver.strategy.checks import NOT_NEGATIVE, Errors, names_valid

_ORDINARY = ("cpu", "memory")
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_COUNTED = frozenset(
    (
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_QUOTA = (
    frozenset(_COMPUTE)
    | frozenset(f"requests.{name}" for name in (*_COMPUTE, "storage"))
    | frozenset(f"limits.{name}" for name in _COMPUTE)
    | _COUNTED
)
_STANDARD = _QUOTA | {"storage"}
_POD_LEVEL = ("cpu", HUGE_PAGES_PREFIX, "memory")


# --- canonical form -----------------------------------------------------------------------------------------------


@remembered(16384)
def _canonical_text(text: str) -> str:
    return Quantity.parse(text).rounded_to_milli().as_written()


def _canonical_amount(amount: str | int | float) -> str:
    return _canonical_text(amount if isinstance(amount, str) else str(Quantity.parse(amount)))


def normalise(amounts: dict[str, Any] | None) -> None:
    """Rounds every amount up to a thousandth and rewrites it in canonical form, in place."""
    if amounts:
        for name, text in amounts.items():
            amounts[name] = _canonical_amount(text)


# --- names --------------------------------------------------------------------------------------------------------


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES_PREFIX)


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)


@remembered(4096)
def is_extended(name: str) -> bool:
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def is_integer(name: str) -> bool:
    return name in _COUNTED or ("/" in name and is_extended(name))


def is_standard_quota_name(name: str) -> bool:
    return name in _QUOTA or is_huge_pages(name) or name.startswith("requests.hugepages-")


@remembered(4096)
def resource_name(name: str) -> tuple[str, ...]:
    found = names.qualified_name(name)
    if found:
        return found
    if "/" not in name and not (is_standard_quota_name(name) or name in _STANDARD):
        return ("must be a standard resource type or fully qualified",)
    return ()


@remembered(4096)
def container_resource_name(name: str) -> tuple[str, ...]:
    found = resource_name(name)
    if "/" not in name:
        if name not in _COMPUTE and not is_huge_pages(name):
            return (*found, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        return (*found, "doesn't follow extended resource name standard")
    return found


@remembered(4096)
def quota_resource_name(name: str) -> tuple[str, ...]:
    found = resource_name(name)
    if "/" not in name and not is_standard_quota_name(name):
        return (*found, "must be a standard resource for quota")
    return found


# --- amounts ------------------------------------------------------------------------------------------------------


def amount(name: str, quantity: Quantity, path: str, errors: Errors) -> None:
    if quantity.nanos < 0:
        errors.append(invalid(path, quantity.as_written(), NOT_NEGATIVE))
    if quantity.nanos % NANO and is_integer(name):
        errors.append(invalid(path, quantity.as_written(), "must be an integer"))


def _huge_pages(name: str, quantity: Quantity, path: str, errors: Errors) -> None:
    try:
        page = Quantity.parse(name[len(HUGE_PAGES_PREFIX) :])
        fine = page.nanos > 0 and page.nanos % NANO == 0 and quantity.nanos >= 0 and quantity.value % page.value == 0
    except QuantityError:
        fine = False
    if not fine:
        errors.append(
            invalid(path, quantity.as_written(), f"{quantity.as_written()} is not positive integer multiple of {name}")
        )


def requirements(
    resources: Mapping[str, Any] | None, path: str, claims: frozenset[str], errors: Errors, *, pod_level: bool = False
) -> None:
    """Validates the resources of a container, or of a pod as a whole."""
    if not resources:
        return
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    if not _ordinary(limits, requests):
        _amounts(limits, requests, path, pod_level, errors)
    if resources.get("claims"):
        _claims(resources["claims"], claims, f"{path}.claims", errors)


def _ordinary(limits: Mapping[str, Any], requests: Mapping[str, Any]) -> bool:
    """Whether there are only cpu and memory, no negative amounts, and no requests above limits. This fast check accepts
    most resources; no other rule would reject them."""
    for name, text in limits.items():
        if name not in _ORDINARY or Quantity.parse(text).nanos < 0:
            return False
    for name, text in requests.items():
        requested = Quantity.parse(text).nanos
        if (
            name not in _ORDINARY
            or requested < 0
            or (name in limits and requested > Quantity.parse(limits[name]).nanos)
        ):
            return False
    return True


def _amounts(
    limits: Mapping[str, Any], requests: Mapping[str, Any], path: str, pod_level: bool, errors: Errors
) -> None:
    parsed = {name: Quantity.parse(text) for name, text in limits.items()}
    for name, quantity in parsed.items():
        _entry(name, quantity, f"{path}.limits", pod_level, errors)
    for name, text in requests.items():
        quantity = Quantity.parse(text)
        _entry(name, quantity, f"{path}.requests", pod_level, errors, parsed.get(name))
        _against_limit(name, quantity, parsed.get(name), path, errors)
        if is_huge_pages(name):
            _huge_pages(name, quantity, f"{path}.requests[{name}]", errors)
    named = limits.keys() | requests.keys()
    if any(map(is_huge_pages, named)) and not ("cpu" in named or "memory" in named):
        errors.append(forbidden(path, "HugePages require cpu or memory"))


def _entry(
    name: str, quantity: Quantity, path: str, pod_level: bool, errors: Errors, limit: Quantity | None = None
) -> None:
    if quantity.nanos >= 0 and name in _ORDINARY:
        return
    here = f"{path}[{name}]"
    if pod_level:
        complaints = resource_name(name)
        names_valid(name, here, complaints, errors)
        if not complaints and not is_pod_level_resource(name):
            errors.append(not_supported(here, name, _POD_LEVEL))
    else:
        names_valid(name, here, container_resource_name(name), errors)
    amount(name, quantity, here, errors)
    if is_huge_pages(name) and path.endswith(".limits"):
        _huge_pages(name, quantity, here, errors)


def _against_limit(name: str, quantity: Quantity, limit: Quantity | None, path: str, errors: Errors) -> None:
    if limit is None:
        if not is_overcommit_allowed(name):
            errors.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    elif quantity.nanos != limit.nanos:
        bound = f"{name} limit of {limit.as_written()}"
        if not is_overcommit_allowed(name):
            errors.append(invalid(f"{path}.requests", quantity.as_written(), f"must be equal to {bound}"))
        elif quantity.nanos > limit.nanos:
            errors.append(invalid(f"{path}.requests", quantity.as_written(), f"must be less than or equal to {bound}"))


def _claims(claims: list[Mapping[str, Any]], known: frozenset[str], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, claim in enumerate(claims):
        here, name, request = f"{path}[{at}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(here))
            continue
        if request:
            names_valid(request, f"{here}.request", names.dns_label(request), errors)
        key = f"{name}/{request}" if request else name
        overlapping = not request and any(other.startswith(f"{name}/") for other in seen)
        if name in seen or key in seen or overlapping:
            errors.append(duplicate(here, name if name in seen or overlapping else key))
        seen.add(key)
        if name not in known:
            listed = ": " + ", ".join(sorted(known)) if known else " which is empty"
            detail = "must be one of the names in pod.spec.resourceClaims" + listed
            errors.append(FieldError(NOT_FOUND, here, detail, go_quote(name)))
