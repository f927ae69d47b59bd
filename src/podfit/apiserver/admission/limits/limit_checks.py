"""Pure checks of a pod or a claim against the items of a LimitRange, with Kubernetes' messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import Amounts, amounts, container_limits, container_requests, pod_limits, pod_requests
from podfit.api.quantity import Quantity

_MAX_MILLI = ((1 << 63) - 1) // 1000
"""Above this many units Go compares whole units, because thousandths would overflow."""


def pod_violations(pod: Object, items: Iterable[Mapping[str, Any]]) -> list[str]:
    spec = pod.get("spec") or {}
    found: list[str] = []
    for item in items:
        kind = item.get("type")
        if kind == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                _check(item, container_requests(container), container_limits(container), found)
        elif kind == "Pod":
            _check(item, pod_requests(pod, overhead=False), pod_limits(pod, overhead=False), found)
    return found


def claim_violations(claim: Object, items: Iterable[Mapping[str, Any]]) -> list[str]:
    requests = amounts(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    found: list[str] = []
    for item in items:
        if item.get("type") != "PersistentVolumeClaim":
            continue
        for resource, least in _sorted(item.get("min")):
            _minimum(item["type"], resource, least, requests, {}, found)
        for resource, most in _sorted(item.get("max")):
            request = requests.get(resource)
            words = f"maximum {resource} usage per {item['type']} is {most}"
            if request is None:
                found.append(f"{words}.  No request is specified")
            elif _above(request, most):
                found.append(f"{words}, but request is {request}")
    return found


def _check(item: Mapping[str, Any], requests: Amounts, limits: Amounts, found: list[str]) -> None:
    for resource, least in _sorted(item.get("min")):
        _minimum(item["type"], resource, least, requests, limits, found)
    for resource, most in _sorted(item.get("max")):
        _maximum(item["type"], resource, most, requests, limits, found)
    for resource, ratio in _sorted(item.get("maxLimitRequestRatio")):
        _ratio(item["type"], resource, ratio, requests, limits, found)


def _sorted(values: Mapping[str, Any] | None) -> list[tuple[str, Quantity]]:
    return [(name, Quantity.parse(text)) for name, text in sorted((values or {}).items())]


def _minimum(kind: str, resource: str, least: Quantity, requests: Amounts, limits: Amounts, found: list[str]) -> None:
    words = f"minimum {resource} usage per {kind} is {least}"
    request, limit = requests.get(resource), limits.get(resource)
    if request is None:
        found.append(f"{words}.  No request is specified")
    elif _above(least, request):
        found.append(f"{words}, but request is {request}")
    elif limit is not None and _above(least, limit):
        found.append(f"{words}, but limit is {limit}")


def _maximum(kind: str, resource: str, most: Quantity, requests: Amounts, limits: Amounts, found: list[str]) -> None:
    words = f"maximum {resource} usage per {kind} is {most}"
    request, limit = requests.get(resource), limits.get(resource)
    if limit is None:
        found.append(f"{words}.  No limit is specified")
    elif _above(limit, most):
        found.append(f"{words}, but limit is {limit}")
    elif request is not None and _above(request, most):
        found.append(f"{words}, but request is {request}")


def _ratio(kind: str, resource: str, most: Quantity, requests: Amounts, limits: Amounts, found: list[str]) -> None:
    words = f"{resource} max limit to request ratio per {kind} is {most}"
    request, limit = requests.get(resource), limits.get(resource)
    if request is None or not request:
        found.append(f"{words}, but no request is specified or request is 0")
        return
    if limit is None or not limit:
        found.append(f"{words}, but no limit is specified or limit is 0")
        return
    fine = request.value <= _MAX_MILLI and limit.value <= _MAX_MILLI and most.value <= _MAX_MILLI
    ratio = limit.milli / request.milli if fine else limit.value / request.value
    if ratio * 1000 > most.milli:
        found.append(f"{words}, but provided ratio is {ratio:f}")


def _above(one: Quantity, other: Quantity) -> bool:
    if one.value <= _MAX_MILLI and other.value <= _MAX_MILLI:
        return one.milli > other.milli
    return one.value > other.value
