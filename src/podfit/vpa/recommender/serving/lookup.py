"""Finds the autoscaler whose recommendation applies to a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from podfit.vpa.model.objects.matching import by_target, controlling_vpa
from podfit.vpa.model.objects.pods import controller_of, labels_of
from podfit.vpa.recommender.decide.histograms.cluster import Vpa

if TYPE_CHECKING:
    from podfit.vpa.recommender.loop import Recommender


def vpa_of(recommender: Recommender, pod: Any) -> Vpa | None:
    """The autoscaler for a pod: by its owner or, for a pod without an owner, by its labels."""
    cluster, targets = recommender.cluster, recommender.targets
    namespace = pod["metadata"].get("namespace") or "default"
    here = [vpa for id, vpa in cluster.vpas.items() if id[0] == namespace]
    if controller_of(pod) is not None:
        found = controlling_vpa(pod, by_target(vpa.object for vpa in here), targets.selector_of, targets.topmost_of)
        return cluster.vpas.get((namespace, found["metadata"]["name"])) if found is not None else None
    matching = [vpa for vpa in here if vpa.selector.matches(labels_of(pod))]
    return min(matching, key=_age, default=None)


def _age(vpa: Vpa) -> tuple[str, str]:
    return vpa.object["metadata"].get("creationTimestamp") or "", vpa.id[1]
