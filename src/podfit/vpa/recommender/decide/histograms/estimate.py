"""Computes target, lower and upper bound from a container's usage data. Pure numbers.

The target is a percentile plus a margin. The bounds are wider while confidence is low: after a day of samples the upper
bound is twice its percentile, the lower about 0.2 % below its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from podfit.vpa.model.objects.policy import RESOURCES
from podfit.vpa.model.times import Seconds, elapsed
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.amounts import amount_of, scaled
from podfit.vpa.recommender.decide.histograms.gomath import pow_

Amounts = dict[str, int]

LOWER = (0.001, -2.0)
UPPER = (1.0, 1.0)
"""(1 + multiplier / confidence) ** exponent scales the bounds."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Target, lower and upper bound in millicores and bytes, by resource name."""

    target: Amounts
    lower: Amounts
    upper: Amounts


def confidence(first: Seconds, last: Seconds, count: float, interval: Seconds) -> float:
    """The confidence in samples: 1 after one interval with one sample a minute. The smaller of time span and number of
    samples determines it."""
    return min(elapsed(last, first) / interval, count / (interval / 60.0))


def widening(trust: float, multiplier: float, exponent: float) -> float:
    ratio = math.inf if trust == 0 else multiplier / trust
    return pow_(1.0 + ratio, exponent)


def with_margin(base: int, fraction: float) -> int:
    return base + scaled(base, fraction)


def minimums(config: Config, containers: int) -> Amounts:
    """The minimum of one container: the smallest pod, divided evenly among its containers."""
    share = 1.0 / containers
    return {
        "cpu": scaled(amount_of(config.pod_recommendation_min_cpu_millicores * 0.001 * 1000.0), share),
        "memory": scaled(amount_of(config.pod_recommendation_min_memory_mb * 1024 * 1024), share),
    }


def sampled_resources(state: AggregateState, config: Config) -> tuple[str, ...]:
    """The controlled resources with samples, for which sizes can be computed."""
    if config.recommend_without_samples:
        return state.controlled
    empty = {"cpu": state.cpu.empty, "memory": state.memory.empty}
    return tuple(name for name in state.controlled if not empty[name])


def recommendable(state: AggregateState, config: Config) -> bool:
    """Whether the container gets a recommendation at all; without controlled resources it gets an empty one."""
    return bool(sampled_resources(state, config)) or not state.controlled


def restricted(size: Estimate, wanted: Collection[str]) -> Estimate:
    """The estimate reduced to these resources."""
    target, lower, upper = (
        {name: amounts[name] for name in RESOURCES if name in wanted and name in amounts}
        for amounts in (size.target, size.lower, size.upper)
    )
    return Estimate(target, lower, upper)


def estimate(state: AggregateState, config: Config, least: Amounts, given_trust: float | None = None) -> Estimate:
    """The three sizes of one container, for the resources that its policy controls and that have samples.

    `given_trust` replaces the confidence of the samples.
    """
    margin = config.recommendation_margin_fraction
    sampled = sampled_resources(state, config)

    def base(cpu: float, memory: float) -> Amounts:
        found = {
            "cpu": amount_of(state.cpu.percentile(cpu) * 1000.0),
            "memory": amount_of(state.memory.percentile(memory)),
        }
        return {name: with_margin(amount, margin) for name, amount in found.items()}

    intervals = {"cpu": config.confidence_interval_cpu, "memory": config.confidence_interval_memory}
    trust = {
        name: confidence(state.first, state.last, state.count, interval) if given_trust is None else given_trust
        for name, interval in intervals.items()
    }

    def finish(amounts: Amounts, widen: tuple[float, float] | None = None) -> Amounts:
        result = {}
        for name in sampled:
            amount = amounts[name]
            if widen:
                amount = scaled(amount, widening(trust[name], *widen))
            result[name] = max(amount, least[name])
        return result

    return Estimate(
        finish(base(config.target_cpu_percentile, config.target_memory_percentile)),
        finish(
            base(config.recommendation_lower_bound_cpu_percentile, config.recommendation_lower_bound_memory_percentile),
            LOWER,
        ),
        finish(
            base(config.recommendation_upper_bound_cpu_percentile, config.recommendation_upper_bound_memory_percentile),
            UPPER,
        ),
    )


def estimate_all(states: Mapping[str, AggregateState], config: Config) -> dict[str, Estimate]:
    """One estimate for each container with samples. The caller has excluded containers that are switched off."""
    if not states:
        return {}
    # A container without samples still gets its share of the smallest pod.
    least = minimums(config, len(states))
    return {name: estimate(state, config, least) for name, state in states.items() if recommendable(state, config)}
