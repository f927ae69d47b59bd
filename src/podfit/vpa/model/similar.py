"""Reads how an autoscaler's status marks recommendations that come from similar containers.

`uncappedTarget` is computed from a container's own usage, so a resource without samples of its own is missing there.
Together with the condition this shows, resource by resource, which sizes the updater must not apply to running pods.
"""

from __future__ import annotations

from podfit.api.objects import ObjectView
from podfit.vpa.model.objects.policy import container_recommendations

FROM_SIMILAR = "RecommendedFromSimilar"
_SIZES = ("target", "lowerBound", "upperBound")


def from_similar(vpa: ObjectView) -> bool:
    """Whether part of the recommendation comes from similar containers."""
    status = vpa.get("status") or {}
    if (status.get("recommendation") or {}).get(FROM_SIMILAR):
        return True
    conditions = status.get("conditions") or ()
    return any(condition.get("type") == FROM_SIMILAR and condition.get("status") == "True" for condition in conditions)


def borrowed_resources(entry: ObjectView) -> list[str]:
    """The resources of a container's recommendation for which it has no samples of its own."""
    own = entry.get("uncappedTarget") or {}
    return [name for name in entry.get("target") or {} if name not in own]


def own_only(vpa: ObjectView) -> ObjectView:
    """The autoscaler with only the recommendations from its containers' own usage: running pods get no others."""
    if not from_similar(vpa):
        return vpa
    entries = []
    for entry in container_recommendations(vpa):
        left_out = borrowed_resources(entry)
        kept = {
            field: {name: amount for name, amount in value.items() if name not in left_out}
            if field in _SIZES
            else value
            for field, value in entry.items()
        }
        if kept.get("target") or not left_out:
            entries.append(kept)
    recommendation = {"containerRecommendations": entries} if entries else {}
    return {**vpa, "status": {**(vpa.get("status") or {}), "recommendation": recommendation}}
