"""The strategy of PriorityLevelConfigurations."""

from __future__ import annotations

import math

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.gonames import as_go
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.checks import equal
from podfit.apiserver.strategy.flows.mandatory import mandatory_spec
from podfit.apiserver.strategy.flows.schemas import GROUP, FlowStrategy
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default

_TYPES = ("Exempt", "Limited")
_RESPONSES = ("Queue", "Reject")
_SHARES = 30
_QUEUES, _HAND, _QUEUE_LENGTH = 64, 8, 50
_MOST_QUEUES, _HASH_BITS = 10_000_000, 60
_PERCENT = "must be between 0 and 100, inclusive"
_OLD_ANNOTATION = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


class PriorityLevelStrategy(FlowStrategy):
    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        exempt, limited = spec.get("exempt"), spec.get("limited")
        if exempt is not None:
            set_default(exempt, "nominalConcurrencyShares", 0)
            set_default(exempt, "lendablePercent", 0)
        if limited is None:
            return
        set_default(limited, "nominalConcurrencyShares", _SHARES)
        set_default(limited, "lendablePercent", 0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            for field, value in (("handSize", _HAND), ("queues", _QUEUES), ("queueLengthLimit", _QUEUE_LENGTH)):
                queuing[field] = queuing.get(field) or value

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
        if _OLD_ANNOTATION in (metadata.get("annotations") or {}):
            errors.append(forbidden("metadata.annotations", f"annotation '{_OLD_ANNOTATION}' is forbidden"))
        _spec(spec, metadata.get("name", ""), errors)
        _fixed(spec, metadata.get("name", ""), errors)
        return errors + self.validate_status(obj, {})


def _fixed(spec: Object, name: str, errors: Errors) -> None:
    fixed = mandatory_spec("PriorityLevelConfiguration", name)
    if fixed is None:
        return
    but, mine = "", spec
    if name == "exempt":
        # Administrators may set how many seats the exempt level lends; its other fields are immutable.
        but, mine = " except the 'spec.exempt' field", {**spec, "exempt": fixed["exempt"]}
    if not equal(mine, fixed):
        shown = as_go(spec, type_named("PriorityLevelConfigurationSpec", GROUP))
        errors.append(invalid("spec", shown, f"spec of '{name}'{but} must equal the fixed value"))


def _spec(spec: Object, name: str, errors: Errors) -> None:
    kind, exempt, limited = spec.get("type", ""), spec.get("exempt"), spec.get("limited")
    if (name == "exempt") != (kind == "Exempt"):
        errors.append(invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
        if exempt is not None:
            _shares(exempt, "spec.exempt", errors)
            _check_lendable(exempt, "spec.exempt", errors)
    elif kind == "Limited":
        if exempt is not None:
            errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
        if limited is None:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            _limited(limited, errors)
    elif not kind:
        errors.append(required("spec.type"))
    else:
        errors.append(not_supported("spec.type", kind, _TYPES))


def _shares(level: Object, path: str, errors: Errors) -> None:
    shares = level.get("nominalConcurrencyShares")
    if shares is not None and shares < 0:
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer"))


def _check_lendable(level: Object, path: str, errors: Errors) -> None:
    percent = level.get("lendablePercent")
    if percent is not None and not 0 <= percent <= 100:
        errors.append(invalid(f"{path}.lendablePercent", percent, _PERCENT))


def _limited(level: Object, errors: Errors) -> None:
    path = "spec.limited"
    _shares(level, path, errors)
    _response(level.get("limitResponse") or {}, f"{path}.limitResponse", errors)
    _check_lendable(level, path, errors)
    borrowed = level.get("borrowingLimitPercent")
    if borrowed is not None and borrowed < 0:
        detail = "if specified, must be a non-negative integer"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowed, detail))


def _response(response: Object, path: str, errors: Errors) -> None:
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            detail = "must be nil if limited.limitResponse.type is not Limited"
            errors.append(forbidden(f"{path}.queuing", detail))
    elif kind == "Queue":
        if queuing is None:
            detail = "must not be empty if limited.limitResponse.type is Limited"
            errors.append(required(f"{path}.queuing", detail))
        else:
            _queuing(queuing, f"{path}.queuing", errors)
    elif not kind:
        errors.append(required(f"{path}.type"))
    else:
        errors.append(not_supported(f"{path}.type", kind, _RESPONSES))


def _queuing(queuing: Object, path: str, errors: Errors) -> None:
    length, queues, hand = (queuing.get(field, 0) for field in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        errors.append(invalid(f"{path}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MOST_QUEUES:
        errors.append(invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}"))
    where = f"{path}.handSize"
    if hand <= 0:
        errors.append(invalid(where, hand, "must be positive"))
    elif hand > queues:
        errors.append(invalid(where, hand, f"should not be greater than queues ({queues})"))
    elif entropy_bits(queues, hand) > _HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        )
        errors.append(invalid(where, hand, detail))


def entropy_bits(queues: int, hand: int) -> int:
    """Bits of a hash used up by choosing a hand of queues."""
    return math.ceil(math.log2(queues) * hand)
