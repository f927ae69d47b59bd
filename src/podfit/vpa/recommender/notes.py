"""The conditions beyond upstream's two: low confidence, history on its way, metrics gone, resources scaled elsewhere.

A condition that never held is not written; one that held and no longer does is set to False: readers see it end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podfit.vpa.model import horizontal
from podfit.vpa.model.policy import container_policy, scaling_off
from podfit.vpa.model.times import NEVER
from podfit.vpa.recommender.decide.cluster import Vpa
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.estimate import confidence
from podfit.vpa.recommender.decide.status import FETCHING_HISTORY, LOW_CONFIDENCE, Condition, Outcome

METRICS_GONE = "MetricsUnavailable"


def trust_of(vpa: Vpa, config: Config) -> float:
    """The confidence of the container that is known least; 0 without containers."""
    spans: dict[str, tuple[float, float, int]] = {}
    named = [*((key.container, state) for key, state in vpa.aggregates.items()), *vpa.initial.items()]
    for name, state in named:
        first, last, count = spans.get(name, (NEVER, NEVER, 0))
        own = state.first
        if own != NEVER:
            first = own if first == NEVER else min(first, own)
        spans[name] = first, max(last, state.last), count + state.count
    interval = max(config.confidence_interval_cpu, config.confidence_interval_memory)
    counted = [span for name, span in spans.items() if not scaling_off(container_policy(vpa.object, name))]
    return min((confidence(*span, interval) for span in counted), default=0.0)


def extra_conditions(
    vpa: Vpa, *, trust: float, low_below: float, fetching: str, usage_gone: str, scaled: Mapping[str, str]
) -> tuple[Condition, ...]:
    """`fetching` and `usage_gone` are empty or say what is the matter; `scaled` are resources with their HPA."""
    known = bool(vpa.aggregates or vpa.initial)
    low = known and trust < low_below
    # Without the number that grows with every sample: a status is written when it is news, not every pass.
    words = f"The recommendation rests on less than {low_below:g} confidence interval(s) of samples."
    wanted = (
        (LOW_CONFIDENCE, low, "TooFewSamples", words),
        (FETCHING_HISTORY, bool(fetching), "HistoryNotLoaded", fetching),
        (METRICS_GONE, bool(usage_gone), "MetricsApiFailed", usage_gone),
        (horizontal.CONDITION, bool(scaled), "HorizontalPodAutoscaler", horizontal.message(scaled) if scaled else ""),
    )
    observed = {entry.get("type") for entry in (vpa.object.get("status") or {}).get("conditions") or ()}
    return tuple(_conditions(wanted, observed))


def _conditions(wanted: tuple[tuple[str, bool, str, str], ...], observed: set[Any]) -> Iterator[Condition]:
    for type, holds, reason, message in wanted:
        if holds:
            yield Condition(type, True, reason, message)
        elif type in observed:
            yield Condition(type, False)


def held(vpa: Vpa, outcome: Outcome) -> Outcome:
    """The outcome with the sizes that stand already: without the past too little is known to change them."""
    observed = vpa.object.get("status") or {}
    standing = observed.get("recommendation") or {}
    if not standing.get("containerRecommendations"):
        return outcome
    conditions = [
        {**condition, "status": "True"} if condition["type"] == "RecommendationProvided" else condition
        for condition in outcome.status["conditions"]
    ]
    status = {**outcome.status, "recommendation": standing, "conditions": conditions}
    same = status == {key: observed.get(key) for key in status}
    return Outcome(outcome.estimates, status, None if same else [{"op": "add", "path": "/status", "value": status}])
