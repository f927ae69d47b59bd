"""Lets targets rise at once and fall slowly: a target is raised to its maximum of the last minutes. Pure, with a state.

Without this, noise in the recommendation would resize pods back and forth.
"""

from __future__ import annotations

from collections import deque

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity, QuantityError
from podfit.vpa.model.objects.policy import container_recommendations
from podfit.vpa.model.times import Seconds

VpaId = tuple[str, str]
Targets = dict[tuple[str, str], str]


class StableTargets:
    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._seen: dict[VpaId, deque[tuple[Seconds, Targets]]] = {}

    def forget(self, alive: set[VpaId]) -> None:
        for id in [id for id in self._seen if id not in alive]:
            del self._seen[id]

    def settle(self, vpa: ObjectView, now: Seconds) -> ObjectView:
        """The autoscaler with targets that fall only after a delay."""
        entries = container_recommendations(vpa)
        if self._delay_s <= 0 or not entries:
            return vpa
        meta = vpa["metadata"]
        seen = self._seen.setdefault((meta.get("namespace", ""), meta["name"]), deque())
        targets: Targets = {
            (entry["containerName"], resource): amount
            for entry in entries
            for resource, amount in (entry.get("target") or {}).items()
        }
        if not seen or seen[-1][1] != targets:
            seen.append((now, targets))
        # The last entry before the delay began was in force at its beginning.
        while len(seen) > 1 and (seen[1][0] <= now - self._delay_s or seen[0][0] > now):
            seen.popleft()
        highest = _highest([kept for _, kept in seen])
        if all(highest.get(key) == amount for key, amount in targets.items()):
            return vpa
        raised = [
            {
                **entry,
                "target": {name: highest[entry["containerName"], name] for name in entry.get("target") or {}},
            }
            for entry in entries
        ]
        return {**vpa, "status": {**vpa["status"], "recommendation": {"containerRecommendations": raised}}}


def _highest(all_targets: list[Targets]) -> Targets:
    found: Targets = {}
    for targets in all_targets:
        for key, amount in targets.items():
            try:
                if key not in found or Quantity.parse(amount) > Quantity.parse(found[key]):
                    found[key] = amount
            except QuantityError:
                found[key] = amount
    return found
