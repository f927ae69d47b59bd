"""The reasons why pods were not resized, or got less than recommended: stored for `podfit explain`, emitted once as an
Event.

Queries return the state of the last pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from podfit.client import EventRecorder
from podfit.vpa.model.times import Seconds, to_rfc3339
from podfit.vpa.updater.decide.whynot import WhyNot

VpaId = tuple[str, str]


class SkipReasons:
    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._pods: dict[VpaId, dict[str, WhyNot]] = {}
        self._at: dict[VpaId, Seconds] = {}
        self._told: dict[VpaId, frozenset[tuple[str, str]]] = {}
        self._cuts: dict[VpaId, dict[str, str]] = {}

    def cut(self, vpa: Mapping[str, Any], pod: str, words: str) -> None:
        """Records that a pod was resized, but not as far as recommended."""
        cuts = self._cuts.setdefault((vpa["metadata"].get("namespace", ""), vpa["metadata"]["name"]), {})
        if cuts.get(pod) != words:
            cuts[pod] = words
            self._events.record(dict(vpa), "Normal", "ResizeCut", f"Pod {pod}: {words}.")

    def report(self, vpa: Mapping[str, Any], pods: Mapping[str, WhyNot], now: Seconds) -> None:
        """Stores the reasons of a pass, and emits an Event for each that is new for this autoscaler, however many pods
        it affects."""
        id = vpa["metadata"].get("namespace", ""), vpa["metadata"]["name"]
        self._pods[id], self._at[id] = dict(pods), now
        loud: dict[tuple[str, str], list[str]] = {}
        for name, why in sorted(pods.items()):
            if not why.quiet:
                loud.setdefault((why.reason, why.message), []).append(name)
        known = {reason for reason, _ in self._told.get(id, frozenset())}
        for (reason, message), names in loud.items():
            if reason not in known:
                shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
                self._events.record(
                    dict(vpa), "Normal", "PodLeftAlone", (f"{reason}: pod {shown} not changed: {message}")
                )
        self._told[id] = frozenset(loud)

    def forget(self, alive: Iterable[VpaId]) -> None:
        kept = set(alive)
        for id in [id for id in self._pods if id not in kept]:
            del self._pods[id], self._at[id], self._told[id]
            self._cuts.pop(id, None)

    def of(self, id: VpaId) -> dict[str, Any] | None:
        if id not in self._pods:
            return None
        pods = {name: {"reason": why.reason, "message": why.message} for name, why in sorted(self._pods[id].items())}
        fields = {"namespace": id[0], "name": id[1], "at": to_rfc3339(self._at[id]), "pods": pods}
        return {**fields, "cut": dict(sorted(self._cuts.get(id, {}).items()))}

    def counts(self) -> Counter[str]:
        return Counter(why.reason for pods in self._pods.values() for why in pods.values())
