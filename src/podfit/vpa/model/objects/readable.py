"""Handles autoscaler objects with unusable values: quantities that pass the schema but cannot be parsed (`1e1.5`), and
policies whose maximum is below their minimum.

Such an object must not affect the others. It is replaced by one that requests no changes and contains the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import Quantity, QuantityError
from podfit.vpa.model.objects.allowed import contradictions
from podfit.vpa.model.objects.policy import container_policies

UNREADABLE = "unreadable"
"""The field that holds the error."""
_LISTS = ("minAllowed", "maxAllowed")
_AMOUNTS = ("oomBumpUpRatio", "oomMinBumpUp")
_SIZES = ("target", "lowerBound", "upperBound", "uncappedTarget")


def readable(vpa: Object) -> Object:
    """The object itself, if all of its values can be used; otherwise a harmless copy with the error."""
    if _first_wrong(_in_status(vpa)):
        status = {name: value for name, value in vpa["status"].items() if name != "recommendation"}
        vpa = {**vpa, "status": status}
    problem = _first_wrong(_in_spec(vpa)) or _contradiction(vpa)
    if not problem:
        return vpa
    spec = {name: vpa["spec"][name] for name in ("targetRef", "selector", "recommenders") if name in vpa["spec"]}
    return {**vpa, "spec": {**spec, "updatePolicy": {"updateMode": "Off"}}, UNREADABLE: problem}


def _first_wrong(amounts: Iterator[tuple[str, Any]]) -> str:
    for where, amount in amounts:
        try:
            Quantity.parse(amount)
        except (QuantityError, TypeError) as error:
            return f"{where}: {error}"
    return ""


def _contradiction(vpa: Object) -> str:
    for index, policy in enumerate(container_policies(vpa)):
        for error in contradictions(f"spec.resourcePolicy.containerPolicies[{index}]", policy):
            return str(error)
    return ""


def _in_spec(vpa: Object) -> Iterator[tuple[str, Any]]:
    for index, policy in enumerate(container_policies(vpa)):
        path = f"spec.resourcePolicy.containerPolicies[{index}]"
        for name in _LISTS:
            for resource, amount in (policy.get(name) or {}).items():
                yield f"{path}.{name}[{resource}]", amount
        for name in _AMOUNTS:
            if policy.get(name) is not None:
                yield f"{path}.{name}", policy[name]
        yield from _boost(path, policy)
    yield from _boost("spec", vpa.get("spec") or {})


def _boost(path: str, holder: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    amount = ((holder.get("startupBoost") or {}).get("cpu") or {}).get("quantity")
    if amount is not None:
        yield f"{path}.startupBoost.cpu.quantity", amount


def _in_status(vpa: Object) -> Iterator[tuple[str, Any]]:
    recommended = (vpa.get("status") or {}).get("recommendation") or {}
    for entry in recommended.get("containerRecommendations") or ():
        for name in _SIZES:
            for resource, amount in (entry.get(name) or {}).items():
                yield f"status.{name}[{resource}]", amount
