"""Why a recommendation is what it is, number by number. Pure: from what is known, or from objects alone.

Each size is told as the steps that lead to it: percentile, margin, confidence, smallest pod, the policy's and the
cluster's caps. The steps repeat the estimator's arithmetic, and a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from podfit.api.quantity import Quantity
from podfit.vpa.model.policy import container_policy, controlled_resources, scaling_off
from podfit.vpa.model.times import to_rfc3339
from podfit.vpa.recommender.decide.aggregate import AggregateState, load_aggregate
from podfit.vpa.recommender.decide.amounts import amount_of, cpu_quantity, memory_quantity, scaled
from podfit.vpa.recommender.decide.checkpoint import CheckpointError
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.estimate import LOWER, UPPER, confidence, minimums, widening, with_margin

Object = Mapping[str, Any]
Steps = list[dict[str, Any]]
_PERCENTILES = {
    "target": "target_{}_percentile",
    "lowerBound": "recommendation_lower_bound_{}_percentile",
    "upperBound": "recommendation_upper_bound_{}_percentile",
}
_WIDENING = {"target": None, "lowerBound": LOWER, "upperBound": UPPER}


def explain(
    vpa: Object, states: Mapping[str, AggregateState], config: Config, ooms: Iterable[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Everything behind an autoscaler's recommendation, by container and resource."""
    meta = vpa.get("metadata") or {}
    counted = {name: state for name, state in states.items() if not scaling_off(container_policy(vpa, name))}
    least = minimums(config, len(counted)) if counted else {}
    events = list(ooms)
    return {
        "namespace": meta.get("namespace") or "",
        "name": meta.get("name") or "",
        "containers": {
            name: {
                "samples": state.count,
                "firstSample": to_rfc3339(state.first),
                "lastSample": to_rfc3339(state.last),
                "oomEvents": [event for event in events if event.get("container") == name],
                "resources": {
                    resource: _resource(vpa, name, state, resource, config, least[resource], len(counted))
                    for resource in controlled_resources(container_policy(vpa, name))
                },
            }
            for name, state in sorted(counted.items())
        },
        "off": sorted(set(states) - set(counted)),
    }


def explain_objects(vpa: Object, checkpoints: Iterable[Object], config: Config | None = None) -> dict[str, Any]:
    """The same from an autoscaler and its checkpoint objects, for who has no recommender to ask."""
    config = config or Config()
    name = (vpa.get("metadata") or {}).get("name")
    states, unusable = {}, []
    for checkpoint in checkpoints:
        spec = checkpoint.get("spec") or {}
        if spec.get("vpaObjectName") != name:
            continue
        try:
            states[spec.get("containerName") or ""] = load_aggregate(checkpoint.get("status") or {}, config)
        except CheckpointError as error:
            unusable.append(str(error))
    return {**explain(vpa, states, config), **({"unusableCheckpoints": unusable} if unusable else {})}


def _resource(
    vpa: Object, container: str, state: AggregateState, resource: str, config: Config, least: int, siblings: int
) -> dict[str, Any]:
    interval = config.confidence_interval_cpu if resource == "cpu" else config.confidence_interval_memory
    trust = confidence(state.first, state.last, state.count, interval)
    return {
        "confidence": round(trust, 6),
        **{size: _size(vpa, container, state, resource, config, size, trust, least, siblings) for size in _PERCENTILES},
    }


def _size(
    vpa: Object,
    container: str,
    state: AggregateState,
    resource: str,
    config: Config,
    size: str,
    trust: float,
    least: int,
    siblings: int,
) -> dict[str, Any]:
    fraction = getattr(config, _PERCENTILES[size].format(resource))
    histogram = state.cpu if resource == "cpu" else state.memory
    amount = amount_of(histogram.percentile(fraction) * (1000.0 if resource == "cpu" else 1.0))
    steps: Steps = [_step(f"percentile {fraction:g} of what was seen", resource, amount)]
    amount = with_margin(amount, config.recommendation_margin_fraction)
    steps.append(_step(f"plus a margin of {config.recommendation_margin_fraction:.0%}", resource, amount))
    widen = _WIDENING[size]
    if widen is not None:
        factor = widening(trust, *widen)
        amount = scaled(amount, factor)
        steps.append(_step(f"times {factor:.4g} for a confidence of {trust:.4g}", resource, amount))
    if amount < least:
        amount = least
        steps.append(_step(f"raised to the smallest pod's share (1/{siblings})", resource, amount))
    capped, words = _capped(vpa, container, resource, config, _quantity(resource, amount))
    steps += [{"what": what, "value": value.as_written()} for what, value in words]
    return {"value": capped.as_written(), "steps": steps}


def _capped(
    vpa: Object, container: str, resource: str, config: Config, amount: Quantity
) -> tuple[Quantity, list[tuple[str, Quantity]]]:
    policy = container_policy(vpa, container)
    words = []
    low = (policy.get("minAllowed") or {}).get(resource)
    if low is not None and (floor := Quantity.parse(low)) and amount < floor:
        amount = floor
        words.append(("raised to the policy's minAllowed", amount))
    own = (policy.get("maxAllowed") or {}).get(resource)
    limit = Quantity.parse(own) if own is not None else config.max_allowed.get(resource)
    if limit and amount > limit:
        amount = limit
        words.append(("lowered to the policy's maxAllowed" if own else "lowered to the cluster's maximum", amount))
    return amount, words


def _step(what: str, resource: str, amount: int) -> dict[str, Any]:
    return {"what": what, "value": _quantity(resource, amount).as_written()}


def _quantity(resource: str, amount: int) -> Quantity:
    return cpu_quantity(amount) if resource == "cpu" else memory_quantity(amount)
