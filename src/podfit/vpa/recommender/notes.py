"""Conditions beyond upstream's two: low confidence, history not loaded, metrics missing, resources scaled by HPAs.

A condition that never held is not written. One that no longer holds is set to False, so that readers can see when it
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from podfit.kit.clock import rfc3339
from podfit.vpa.model.changing import horizontal
from podfit.vpa.model.fitting.unlimited import OTHER_VALUES, held_down
from podfit.vpa.model.objects.policy import CPU_STARVED, PROVIDED, container_policies, controls_limits
from podfit.vpa.model.similar import FROM_SIMILAR
from podfit.vpa.model.times import NEVER, Seconds
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.evidence.samples import NOTHING_MISSING, Missing, Span
from podfit.vpa.recommender.decide.evidence.starvation import Need
from podfit.vpa.recommender.decide.histograms.cluster import Vpa
from podfit.vpa.recommender.decide.histograms.estimate import confidence
from podfit.vpa.recommender.decide.status import FETCHING_HISTORY, LOW_CONFIDENCE, NO_SAMPLES, Condition

METRICS_GONE = "MetricsUnavailable"
POLICY_FAILED = "PolicyFailed"
OVERRULED, CAPPED_BY_LIMIT = "Overruled", "CappedByLimit"
OURS = frozenset(
    {
        LOW_CONFIDENCE,
        FETCHING_HISTORY,
        METRICS_GONE,
        CPU_STARVED,
        OVERRULED,
        CAPPED_BY_LIMIT,
        FROM_SIMILAR,
        POLICY_FAILED,
        horizontal.CONDITION,
    }
)
NOT_STARVED, METRICS_THERE = Condition(CPU_STARVED, False), Condition(METRICS_GONE, False)
NOT_CAPPED = Condition(CAPPED_BY_LIMIT, False)
NOT_FAILED = Condition(POLICY_FAILED, False)
API_FAILED, STOPPED = "MetricsApiFailed", "SamplesStopped"


def trust_of(
    spans: Mapping[str, Span], recommended: Collection[str], config: Config, more: Mapping[str, float]
) -> float | None:
    """The lowest confidence among the recommended containers; None without a recommendation.

    `more` are the minutes that samples of a history represent, beyond the minute that each counts for.
    """
    interval = max(config.confidence_interval_cpu, config.confidence_interval_memory)
    found = [
        confidence(span.first, span.last, span.count + more.get(name, 0.0), interval)
        for name, span in spans.items()
        if name in recommended
    ]
    return min(found) if found else None


def missing_since(vpa: Vpa, missing: Missing, now: Seconds) -> str:
    """The time since which metrics have been missing: when the containers were first seen, or the time in the
    conditions if that is earlier.

    The conditions preserve it across a restart of the recommender.
    """
    standing = _current_conditions(vpa)
    found = [rfc3339(missing.seen if missing.never and missing.seen != NEVER else now)]
    if _is_deleted(vpa):
        found.append(standing[METRICS_GONE].get("lastTransitionTime") or found[0])
    if missing.never and standing.get(PROVIDED, {}).get("reason") == NO_SAMPLES:
        found.append(standing[PROVIDED].get("lastTransitionTime") or found[0])
    return min(found)


def metrics_gone(vpa: Vpa, missing: Missing, usage_gone: str, since: str, stale_before: Seconds) -> Condition:
    """The condition that samples are missing, with reason and time. A container that has just started has time to get
    its first sample."""
    if not usage_gone and missing is NOTHING_MISSING:
        return METRICS_THERE
    waited = missing.seen <= stale_before or _is_deleted(vpa)
    never = missing.never_message(since) if waited or usage_gone else ""
    api = f"The resource metrics API has not answered since {since}: {usage_gone.rstrip('.')}." if usage_gone else ""
    message = " ".join(part for part in (api, never, missing.stopped_message) if part)
    reason = API_FAILED if api else NO_SAMPLES if never else STOPPED if message else ""
    return Condition(METRICS_GONE, bool(message), reason, message)


def starved(needs: Mapping[str, Need] | None) -> Condition:
    """The condition that containers use up their CPU limit, always or in bursts. Its message has no numbers, which
    would change with every step."""
    if not needs:
        return NOT_STARVED
    words = [
        f"Container {name} uses up its CPU limit: its usage is a lower bound of its need."
        if need.lower_bound
        else f"Container {name} uses less than its CPU limit on average, but its bursts are throttled."
        for name, need in sorted(needs.items())
        if need.lower_bound or need.bursts
    ]
    reason = "UsageAtLimit" if any(need.lower_bound for need in needs.values()) else "BurstsThrottled"
    return Condition(CPU_STARVED, bool(words), reason, " ".join(words))


def overruled_by(winner: str) -> str:
    return (
        f"VerticalPodAutoscaler {winner} is older and selects the same pods: it changes them, this one only recommends."
    )


def newly_overruled(vpa: Vpa, status: Mapping[str, Any]) -> str:
    """The message of the condition, if it has just begun to hold or the winner has changed."""
    now = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") == OVERRULED and condition.get("status") == "True"
    ]
    before = _current_conditions(vpa).get(OVERRULED, {})
    return str(now[0]["message"]) if now and before.get("message") != now[0]["message"] else ""


def capped_by_limits(vpa: Vpa, pod_of: Callable[[str, str], Mapping[str, Any] | None]) -> Condition:
    """The condition that limits, which the policy does not change, cap requests below the recommendation; it names one
    pod."""
    policies = container_policies(vpa.object)
    if not policies or all(controls_limits(policy) for policy in policies):
        return NOT_CAPPED
    for namespace, name in sorted(vpa.pods):
        pod = pod_of(namespace, name)
        if pod is not None and (held := held_down(vpa.object, pod)):
            words = (
                f"Pod {name}, {'; '.join(held)}: controlledValues RequestsOnly does not change limits; {OTHER_VALUES}."
            )
            return Condition(CAPPED_BY_LIMIT, True, "RequestsOnly", words)
    return NOT_CAPPED


def policy_failed(why: str) -> Condition:
    """The condition that the autoscaler's policy gives no sizes, with the reason."""
    if not why:
        return NOT_FAILED
    return Condition(
        POLICY_FAILED, True, "NoSizes", f"{why[0].upper()}{why[1:]}; the default recommender's sizes are used instead."
    )


def extra_conditions(
    vpa: Vpa,
    *,
    trust: float | None,
    low_below: float,
    fetching: str,
    metrics: Condition,
    scaled: Mapping[str, str],
    starved: Condition,
    capped: Condition,
    similar: Condition,
    policy: Condition = NOT_FAILED,
    winner: str = "",
) -> tuple[Condition, ...]:
    """All extra conditions. `fetching` is empty or the state of the history; `scaled` are resources with their HPA;
    `winner` is the autoscaler that changes the pods instead of this one."""
    low = trust is not None and trust < low_below
    wanted: list[Condition] = []
    if low:
        # The message has no number of samples, which grows all the time: the status is to be written on changes, not in
        # every pass.
        words = f"The recommendation is based on less than {low_below:g} confidence interval(s) of samples."
        wanted.append(Condition(LOW_CONFIDENCE, True, "TooFewSamples", words))
    if fetching:
        wanted.append(Condition(FETCHING_HISTORY, True, "HistoryNotLoaded", fetching))
    wanted += [condition for condition in (metrics, starved, capped, similar, policy) if condition.status]
    if winner:
        wanted.append(Condition(OVERRULED, True, "OlderAutoscaler", overruled_by(winner)))
    if scaled:
        wanted.append(Condition(horizontal.CONDITION, True, "HorizontalPodAutoscaler", horizontal.message(scaled)))
    return (*wanted, *_ended(wanted, vpa))


def _ended(wanted: Collection[Condition], vpa: Vpa) -> Iterator[Condition]:
    """Conditions in the status that no longer hold, as False."""
    for entry in (vpa.object.get("status") or {}).get("conditions") or ():
        type = entry.get("type")
        if type in OURS and all(type != condition.type for condition in wanted):
            yield Condition(type, False)


def _is_deleted(vpa: Vpa) -> bool:
    return _current_conditions(vpa).get(METRICS_GONE, {}).get("status") == "True"


def _current_conditions(vpa: Vpa) -> dict[str, Mapping[str, Any]]:
    """The conditions in the object's status, by type."""
    return {str(entry.get("type")): entry for entry in (vpa.object.get("status") or {}).get("conditions") or ()}
