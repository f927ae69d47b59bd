"""The recommender's record of its own results: the out-of-memory kills it counted, and the sizes it recommended."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podfit.vpa.model.objects.labels import labels_from
from podfit.vpa.model.times import Seconds, to_rfc3339
from podfit.vpa.recommender.decide.evidence.oom import Oom
from podfit.vpa.recommender.decide.histograms.cluster import Vpa, VpaId

EVENTS, CHANGES = 2000, 20


@dataclass(frozen=True, slots=True)
class CountedOom:
    oom: Oom
    labels: str
    outcome: str


class RecentChanges:
    def __init__(self) -> None:
        self._ooms: deque[CountedOom] = deque(maxlen=EVENTS)
        self._changes: dict[VpaId, deque[dict[str, Any]]] = {}

    def note_oom(self, oom: Oom, labels: str, outcome: str) -> None:
        self._ooms.append(CountedOom(oom, labels, outcome))

    def note_change(self, id: VpaId, now: Seconds, recommendation: Mapping[str, Any], why: str) -> None:
        """Records a recommendation if it differs from the last one."""
        kept = self._changes.setdefault(id, deque(maxlen=CHANGES))
        if not kept or kept[-1]["recommendation"] != recommendation:
            kept.append({"at": to_rfc3339(now), "recommendation": recommendation, "by": why})

    def forget(self, alive: Mapping[VpaId, Vpa]) -> None:
        for id in [id for id in self._changes if id not in alive]:
            del self._changes[id]

    def ooms_of(self, vpa: Vpa) -> list[dict[str, Any]]:
        return [
            {
                "pod": entry.oom.pod,
                "container": entry.oom.container,
                "at": to_rfc3339(entry.oom.instant),
                "memory": entry.oom.memory,
                "outcome": entry.outcome,
            }
            for entry in self._ooms
            if entry.oom.namespace == vpa.id[0] and vpa.selector.matches(labels_from(entry.labels))
        ]

    def changes_of(self, id: VpaId) -> list[dict[str, Any]]:
        return list(self._changes.get(id, ()))
