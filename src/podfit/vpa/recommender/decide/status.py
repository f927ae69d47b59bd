"""The status of an autoscaler object: recommendation, conditions, and whether they changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.vpa.model.objects.policy import PROVIDED
from podfit.vpa.model.objects.recommended import to_object
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, estimate_all
from podfit.vpa.recommender.decide.postprocess import formatted, post_processed, published

NO_PODS = "NoPodsMatched"
UNSUPPORTED = "ConfigUnsupported"
DEPRECATED = "ConfigDeprecated"
FETCHING_HISTORY = "FetchingHistory"
LOW_CONFIDENCE = "LowConfidence"
NO_SAMPLES = "NoSamples"
NO_PODS_MESSAGE = "No pods match this VPA object"


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: bool
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one pass for an autoscaler. `patch` is the change to its status, or None if it is up to date."""

    estimates: dict[str, Estimate]
    status: dict[str, Any]
    patch: list[dict[str, Any]] | None


def recommend(cluster: ClusterState, vpa: Vpa, now: str | None, extra: Iterable[Condition] = ()) -> Outcome:
    """One autoscaler's recommendation from all of its usage data. `now` (RFC 3339) is the transition time of conditions
    that change.

    `extra` conditions come from the caller, such as LowConfidence or FetchingHistory.
    """
    estimates = estimate_all(cluster.for_recommendation(vpa), cluster.config)
    return outcome(vpa, estimates, cluster.config, now, extra)


def outcome(
    vpa: Vpa,
    estimates: dict[str, Estimate],
    config: Config,
    now: str | None,
    extra: Iterable[Condition] = (),
    missing: str = "",
    kept: Collection[str] = (),
    own: Mapping[str, Estimate | None] | None = None,
) -> Outcome:
    """The outcome of a pass. `missing` are missing samples; `kept` are containers whose published sizes are kept; `own`
    are the sizes from own samples of containers whose sizes come from similar ones."""
    fresh = {name: sizes for name, sizes in estimates.items() if name not in kept}
    recommended = post_processed(vpa.object, formatted(fresh, config, own), config)
    recommended = sorted([*recommended, *published(vpa.object, config, kept)], key=lambda entry: entry.container)
    observed = vpa.object.get("status") or {}
    wanted = [*conditions(bool(recommended), bool(vpa.pods), vpa.unsupported, missing), *extra]
    status = {
        "recommendation": to_object(recommended),
        "conditions": _stamped(observed.get("conditions") or (), wanted, now),
        "observedGeneration": (vpa.object.get("metadata") or {}).get("generation") or 0,
    }
    same = _comparable(observed) == _comparable(status)
    return Outcome(estimates, status, None if same else [{"op": "add", "path": "/status", "value": status}])


def reported(decided: Outcome, now: str) -> Outcome:
    """Adds the time and the most important message to a status that changed. An unchanged status is not written for its
    time alone."""
    if decided.patch is None:
        return decided
    status = {**decided.status, "lastUpdateTime": now, "statusMessage": _in_words(decided.status)}
    return Outcome(decided.estimates, status, [{"op": "add", "path": "/status", "value": status}])


def _in_words(status: ObjectView) -> str:
    count = len((status.get("recommendation") or {}).get("containerRecommendations") or ())
    first = f"Resources are recommended for {count} container{'' if count == 1 else 's'}." if count else ""
    held = {
        condition["type"]: condition for condition in status.get("conditions") or () if condition["status"] == "True"
    }
    rest = [condition.get("message") or "" for type, condition in held.items() if type != PROVIDED]
    if not first and not any(rest):
        rest = ["No recommendation yet."]
    sentences = [words if words.endswith(".") else f"{words}." for words in (first, *rest) if words]
    return " ".join(sentences)


def conditions(provided: bool, matched: bool, unsupported: str | None, missing: str = "") -> list[Condition]:
    """The conditions of upstream. Those that do not hold are absent, except RecommendationProvided, which is then
    False."""
    found = []
    if unsupported is not None:
        found.append(Condition(UNSUPPORTED, True, "", unsupported))
    if not matched:
        found.append(Condition(NO_PODS, True, NO_PODS, NO_PODS_MESSAGE))
    if provided:
        found.append(Condition(PROVIDED, True))
    elif matched:
        found.append(Condition(PROVIDED, False, NO_SAMPLES if missing else "", missing))
    else:
        found.append(Condition(PROVIDED, False, NO_PODS, NO_PODS_MESSAGE))
    return found


def _stamped(observed: Iterable[ObjectView], wanted: Iterable[Condition], now: str | None) -> list[dict[str, Any]]:
    """The conditions sorted by type, with transition times. The time of a condition changes only when its
    status does."""
    before = {condition["type"]: condition for condition in observed}
    ours = {condition.type for condition in wanted}
    kept = {
        type: dict(condition)
        for type, condition in before.items()
        if type not in ours and type not in (NO_PODS, UNSUPPORTED, DEPRECATED)
    }
    for condition in wanted:
        status = "True" if condition.status else "False"
        previous = before.get(condition.type, {})
        unchanged = previous.get("status") == status
        entry = {
            "type": condition.type,
            "status": status,
            "lastTransitionTime": previous.get("lastTransitionTime") if unchanged else now,
        }
        entry.update({k: v for k, v in (("reason", condition.reason), ("message", condition.message)) if v})
        kept[condition.type] = entry
    return [kept[type] for type in sorted(kept)]


def _comparable(status: ObjectView) -> Any:
    """The status in a form that can be compared: quantities by value, absent fields as empty, so that another spelling
    is not a change."""
    recommendation = status.get("recommendation")
    entries = (recommendation or {}).get("containerRecommendations") or ()
    sizes = [
        (
            entry.get("containerName"),
            *(
                {name: Quantity.parse(value).nanos for name, value in (entry.get(field) or {}).items()}
                for field in ("target", "lowerBound", "upperBound", "uncappedTarget")
            ),
        )
        for entry in entries
    ]
    return (
        recommendation is not None,
        sizes,
        list(status.get("conditions") or ()),
        status.get("observedGeneration") or 0,
    )
