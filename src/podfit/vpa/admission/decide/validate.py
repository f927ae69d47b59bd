"""Validates a VerticalPodAutoscaler object before it is stored, with upstream's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.api.status import (
    INVALID,
    TOO_MANY,
    FieldError,
    field_forbidden,
    invalid,
    not_supported,
    required,
)
from podfit.vpa.model.numbers import go_float
from podfit.vpa.model.objects.allowed import not_whole, wrong_amounts
from podfit.vpa.model.objects.policy import CPU, MODES, container_policies

PER_VPA_FIELDS = (
    "oomBumpUpRatio",
    "oomMinBumpUp",
    "memoryAggregationIntervalSeconds",
    "memoryAggregationIntervalCount",
)
_GATE_OFF = "not supported when feature flag PerVPAConfig is disabled"
_BOOST_OFF = (
    "in order to use startupBoost, you must enable feature gate CPUStartupBoost in the admission-controller args"
)
_IN_PLACE_OFF = (
    "in order to use UpdateMode InPlace, you must enable feature gate InPlace in the admission-controller args"
)
_NO_TARGET = "If you're using v1beta1 version of the API, please migrate to v1"


@dataclass(frozen=True, slots=True)
class Allowed:
    """The optional fields that are allowed, by feature gates or because the previous version of the object has them."""

    create: bool = False
    boost: bool = False
    per_vpa: bool = False
    in_place: bool = False


def allowed_for(gates: Mapping[str, bool], old: ObjectView | None) -> Allowed:
    """The optional fields that are allowed. A field whose gate is disabled may stay in an object that already
    has it."""
    old = old or {}
    policy = (old.get("spec") or {}).get("updatePolicy") or {}
    return Allowed(
        boost=bool(gates.get("CPUStartupBoost")) or _boosts(old),
        per_vpa=bool(gates.get("PerVPAConfig")) or _per_vpa(old),
        in_place=bool(gates.get("InPlace")) or policy.get("updateMode") == "InPlace",
    )


def _boosts(vpa: ObjectView) -> bool:
    boost = (vpa.get("spec") or {}).get("startupBoost") or {}
    if boost.get("cpu") is not None:
        return True
    return any(policy.get("startupBoost") is not None for policy in container_policies(vpa))


def _per_vpa(vpa: ObjectView) -> bool:
    policy = (vpa.get("spec") or {}).get("updatePolicy") or {}
    if policy.get("evictAfterOOMSeconds") is not None:
        return True
    return any(entry.get(name) is not None for entry in container_policies(vpa) for name in PER_VPA_FIELDS)


def validate(vpa: ObjectView, allowed: Allowed) -> list[FieldError]:
    spec = vpa.get("spec") or {}
    errors: list[FieldError] = []
    if allowed.create and spec.get("targetRef") is None and spec.get("selector") is None:
        errors.append(required("spec.targetRef", _NO_TARGET))
    if spec.get("targetRef") is not None and spec.get("selector") is not None:
        errors.append(field_forbidden("spec.selector", "may not be set together with targetRef"))
    if spec.get("updatePolicy") is not None:
        errors += _update_policy(spec["updatePolicy"], allowed)
    for index, policy in enumerate(container_policies(vpa)):
        errors += _container_policy(f"spec.resourcePolicy.containerPolicies[{index}]", policy, allowed)
    errors += _boost("spec.startupBoost", spec.get("startupBoost"), allowed)
    recommenders = len(spec.get("recommenders") or ())
    if recommenders > 1:
        errors.append(FieldError(TOO_MANY, "spec.recommenders", "must have at most 1 item", str(recommenders)))
    return errors


def _update_policy(policy: ObjectView, allowed: Allowed) -> Iterator[FieldError]:
    path = "spec.updatePolicy"
    mode = policy.get("updateMode")
    if mode is None:
        yield required(f"{path}.updateMode", "updateMode is required if UpdatePolicy is used")
    elif mode not in MODES:
        yield not_supported(f"{path}.updateMode", mode, sorted(set(MODES) - {"Auto"}))
    elif mode == "InPlace" and not allowed.in_place:
        yield field_forbidden(f"{path}.updateMode", _IN_PLACE_OFF)
    replicas = policy.get("minReplicas")
    if replicas is not None and replicas <= 0:
        yield invalid(f"{path}.minReplicas", replicas, "minReplicas has to be positive")
    yield from _gated(path, policy, "evictAfterOOMSeconds", allowed, _at_least_one)


def _container_policy(path: str, policy: ObjectView, allowed: Allowed) -> Iterator[FieldError]:
    if not policy.get("containerName"):
        yield required(f"{path}.containerName")
    mode = policy.get("mode")
    if mode is not None and mode not in ("Auto", "Off"):
        yield not_supported(f"{path}.mode", mode, ("Auto", "Off"))
    yield from wrong_amounts(path, policy)
    if mode == "Off" and policy.get("controlledValues") == "RequestsAndLimits":
        detail = "controlledValues shouldn't be specified if container scaling mode is off"
        yield field_forbidden(f"{path}.controlledValues", detail)
    yield from _gated(path, policy, "oomBumpUpRatio", allowed, _ratio)
    yield from _gated(path, policy, "oomMinBumpUp", allowed, _bump)
    yield from _gated(path, policy, "memoryAggregationIntervalSeconds", allowed, _at_least_one)
    yield from _gated(path, policy, "memoryAggregationIntervalCount", allowed, _at_least_one)
    yield from _boost(f"{path}.startupBoost", policy.get("startupBoost"), allowed)


Check = Callable[[str, Any], Iterator[FieldError]]


def _gated(path: str, holder: ObjectView, name: str, allowed: Allowed, check: Check) -> Iterator[FieldError]:
    value = holder.get(name)
    if value is None:
        return
    if not allowed.per_vpa:
        yield field_forbidden(f"{path}.{name}", _GATE_OFF)
    else:
        yield from check(f"{path}.{name}", value)


def _at_least_one(path: str, value: Any) -> Iterator[FieldError]:
    if value < 1:
        yield invalid(path, value, "must be greater than or equal to 1")


def _ratio(path: str, value: Any) -> Iterator[FieldError]:
    ratio = Quantity.parse(value).milli / 1000
    if ratio < 1:
        yield FieldError(INVALID, path, "must be greater than or equal to 1.0", go_float(ratio))


def _bump(path: str, value: Any) -> Iterator[FieldError]:
    bump = Quantity.parse(value).value
    if bump < 0:
        yield invalid(path, bump, "must be greater than or equal to 0")


def _boost(path: str, boost: ObjectView | None, allowed: Allowed) -> Iterator[FieldError]:
    if boost is None:
        return
    if not allowed.boost:
        yield field_forbidden(path, _BOOST_OFF)
        return
    cpu = boost.get("cpu")
    if cpu is None:
        return
    kind = cpu.get("type") or ""
    if not kind:
        yield required(f"{path}.cpu.type", "must be either Factor or Quantity")
    elif kind == "Factor":
        factor = cpu.get("factor")
        if factor is None:
            yield required(f"{path}.cpu.factor", "required when type is Factor")
        elif factor < 1:
            yield invalid(f"{path}.cpu.factor", factor, "must be >= 1 for type Factor")
    elif kind == "Quantity":
        if cpu.get("quantity") is None:
            yield required(f"{path}.cpu.quantity", "required when type is Quantity")
        else:
            yield from not_whole(f"{path}.cpu.quantity", CPU, Quantity.parse(cpu["quantity"]))
    else:
        yield not_supported(f"{path}.cpu.type", kind, ("Factor", "Quantity"))
