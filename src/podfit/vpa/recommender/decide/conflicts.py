"""Resolves conflicts between autoscalers for the same pods: the oldest acts, the others only recommend. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podfit.vpa.model.objects.matching import Target, age, own_selector, target_of
from podfit.vpa.model.objects.policy import update_mode
from podfit.vpa.recommender.decide.histograms.cluster import Vpa, VpaId


class Rivals:
    """Sets of autoscalers that may share pods. They are computed once and used in many passes."""

    def __init__(self, vpas: Iterable[Vpa]) -> None:
        acting = [vpa for vpa in vpas if update_mode(vpa.object) != "Off"]
        by_target: dict[Target, list[Vpa]] = {}
        here: dict[str, list[Vpa]] = {}
        selecting: dict[str, list[Vpa]] = {}
        for vpa in acting:
            here.setdefault(vpa.id[0], []).append(vpa)
            if own_selector(vpa.object) is not None:
                selecting.setdefault(vpa.id[0], []).append(vpa)
            elif (target := target_of(vpa.object)) is not None:
                by_target.setdefault(target, []).append(vpa)
        self._same = [vpas for vpas in by_target.values() if len(vpas) > 1]
        self._near = [(vpa, here[namespace]) for namespace, vpas in selecting.items() for vpa in vpas]

    def inactive(self) -> Mapping[VpaId, str]:
        """The autoscalers that must not change pods, each with the name of the one that does."""
        won: dict[VpaId, Vpa] = {}
        for vpas in self._same:
            first = min(vpas, key=lambda vpa: age(vpa.object))
            for vpa in vpas:
                if vpa is not first:
                    _mark_inactive(won, vpa, first)
        for one, others in self._near:
            for other in others:
                if other is not one and not one.pods.isdisjoint(other.pods):
                    first, second = sorted((one, other), key=lambda vpa: age(vpa.object))
                    _mark_inactive(won, second, first)
        return {id: winner.id[1] for id, winner in won.items()}


def _mark_inactive(won: dict[VpaId, Vpa], loser: Vpa, winner: Vpa) -> None:
    """Records that an autoscaler loses; if several win against it, the oldest of them is named."""
    known = won.get(loser.id)
    if known is None or age(winner.object) < age(known.object):
        won[loser.id] = winner
