"""Validates annotations of Services that preceded fields."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid
from podfit.apiserver.strategy.addresses import strict_cidr
from podfit.apiserver.strategy.base import Errors

_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_MODE = "service.kubernetes.io/topology-mode"
_HINTS = "service.kubernetes.io/topology-aware-hints"


def topology_errors(service: Object) -> Errors:
    given = _annotations(service)
    if given.get(_MODE, given.get(_HINTS)) == given.get(_HINTS, given.get(_MODE)):
        return []
    detail = f"must match annotations[{_HINTS}] when both are specified"
    return [invalid(f"metadata.annotations[{_MODE}]", given[_MODE], detail)]


def range_errors(service: Object, stored: Object) -> Errors:
    """Validates the source ranges of a load balancer that has none in its spec; stored ones remain valid."""
    text = _annotations(service).get(_RANGES)
    if text is None:
        return []
    path = f"metadata.annotations[{_RANGES}]"
    errors: Errors = []
    if (service.get("spec") or {}).get("type") != "LoadBalancer":
        errors.append(forbidden(path, "may only be used when `type` is 'LoadBalancer'"))
    if text.strip() and text != _annotations(stored).get(_RANGES):
        for part in text.split(","):
            strict_cidr(part.strip(), path, errors)
    return errors


def _annotations(obj: Object) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}
