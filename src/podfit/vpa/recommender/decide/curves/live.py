"""Runs policies on live usage: which containers need a new size, the sizes they get, and the quality that the sizes of
shadow policies would have had.

A container is sized once an hour, each at its own minute of the hour, and at once after a sample above its size or an
out-of-memory kill. A size is always the one that `podfit backtest` would compute from the same usage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from podfit.vpa.model.times import Seconds
from podfit.vpa.policies.base import RESOURCES, Costs, Policy
from podfit.vpa.policies.quality import Quality
from podfit.vpa.policies.table import POLICIES
from podfit.vpa.recommender.decide.curves.curves import HOUR, CurveKey, Curves, slot_of
from podfit.vpa.recommender.decide.curves.sizing import PolicySizes, sized
from podfit.vpa.recommender.decide.fleet.arena import Ints
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate
from podfit.vpa.recommender.decide.histograms.cluster import Vpa, VpaId

NAMES = tuple(name for name in POLICIES if name != "default")
"""The policies that `spec.recommenders` may name in addition to the histogram recommenders."""


class LivePolicies:
    def __init__(
        self,
        fleet: Fleet,
        shadows: Sequence[str] = (),
        policies: Mapping[str, Policy] = POLICIES,
        costs: Costs | None = None,
    ) -> None:
        """`shadows` are policies that are evaluated on every container, whichever policy sizes it."""
        self.curves = Curves(fleet)
        self.shadows = tuple(shadows)
        self._policies, self._costs = policies, costs or Costs()
        self._policy: dict[CurveKey, str] = {}
        self._of: dict[VpaId, list[CurveKey]] = {}
        self._sized: dict[str, dict[int, PolicySizes]] = {name: {} for name in policies}
        self._done: dict[int, int] = {}
        """The slot in which each curve was last sized."""
        self._killed: set[int] = set()
        self._texts: dict[int, tuple[int, str]] = {}

    def __bool__(self) -> bool:
        """Whether any container is tracked."""
        return bool(self._policy)

    # --- sized containers

    def follow(self, chosen: Mapping[str, Iterable[Vpa]]) -> None:
        """Tracks the containers of autoscalers, which are given by the recommender that sizes them."""
        wanted: dict[CurveKey, list[int]] = {}
        self._policy, self._of = {}, {}
        for plugin, vpas in chosen.items():
            policy = plugin if plugin in NAMES else ""
            for vpa in vpas if policy or self.shadows else ():
                self._add(vpa, policy, wanted)
        before = dict(self.curves.numbers)
        self.curves.keep(wanted)
        for key in before.keys() - self.curves.numbers.keys():
            self._forget(before[key])

    def _add(self, vpa: Vpa, policy: str, wanted: dict[CurveKey, list[int]]) -> None:
        for name, state in vpa.states():
            key = CurveKey(vpa.id, name)
            rows = wanted.setdefault(key, [])
            if isinstance(state, RowAggregate):
                rows.append(state.row)
            if key not in self._policy:
                self._policy[key] = policy
                self._of.setdefault(vpa.id, []).append(key)

    def _forget(self, curve: int) -> None:
        self._done.pop(curve, None)
        self._texts.pop(curve, None)
        for found in self._sized.values():
            found.pop(curve, None)

    # --- sizing

    def killed(self, row: int, instant: Seconds, memory: int) -> None:
        """Records an out-of-memory kill that counts as this much memory."""
        self._killed.update(self.curves.killed(row, slot_of(instant), memory))

    def refresh(self, now: Seconds) -> int:
        """Computes the sizes that are due; returns the number of containers."""
        slot = slot_of(now)
        self.curves.settle(slot)
        keys = {number: key for key, number in self.curves.numbers.items()}
        fresh = [number for number in keys if self._done.get(number) != slot]
        due = {number for number in fresh if self._is_due(number, slot)}
        due |= self._short(np.array([number for number in fresh if number not in due], np.int64), slot)
        self._size(keys, due, slot)
        # A kill counts in the current slot, which is not complete.
        killed, self._killed = self._killed & keys.keys(), set()
        self._size(keys, killed, slot + 1)
        self._done.update(dict.fromkeys(fresh, slot))
        return len(due | killed)

    def _is_due(self, curve: int, slot: int) -> bool:
        before = self._done.get(curve)
        phase = int(self.curves.phase[curve])
        return before is None or before > slot or (before - phase) // HOUR != (slot - phase) // HOUR

    def _short(self, curves: Ints, slot: int) -> set[int]:
        """The curves with usage above their size since they were last sized."""
        if not len(curves):
            return set()
        begin = max(slot - HOUR, min(self._done.get(int(curve), slot) for curve in curves))
        found: set[int] = set()
        for resource in RESOURCES:
            used = self.curves.usage(curves, begin, slot, resource)
            most = np.where(np.isnan(used), 0.0, used).max(1, initial=0.0)
            least = [self._least(int(curve), resource) for curve in curves]
            found.update(curves[most > np.array(least)].tolist())
        return found

    def _least(self, curve: int, resource: str) -> float:
        """The smallest size that any policy gives the container."""
        sizes = (found[curve].size.get(resource) for found in self._sized.values() if curve in found)
        return min((size for size in sizes if size is not None), default=float("inf"))

    def _size(self, keys: Mapping[int, CurveKey], due: Collection[int], slot: int) -> None:
        for name, policy in self._policies.items():
            mine = [curve for curve in due if name in self.shadows or self._policy.get(keys[curve]) == name]
            if mine:
                found = sized(self.curves, policy, np.array(sorted(mine), np.int64), slot, self._costs)
                self._sized[name].update(found)

    # --- restarts

    def saved(self, vpa: VpaId, container: str) -> str:
        """The container's usage as text, which changes once an hour; empty if no policy sizes the container."""
        key = CurveKey(vpa, container)
        curve = self.curves.numbers.get(key)
        if curve is None or not self._policy.get(key) or curve not in self._done:
            return ""
        hour = (self._done[curve] - int(self.curves.phase[curve])) // HOUR
        known = self._texts.get(curve)
        if known is None or known[0] != hour:
            known = self._texts[curve] = hour, self.curves.saved(key)
        return known[1]

    def restore(self, vpa: VpaId, container: str, text: str, now: Seconds) -> None:
        """Restores a container's usage from text. Raises BadCurve."""
        self.curves.restore(CurveKey(vpa, container), text, slot_of(now))

    # --- results

    def of(self, vpa: VpaId) -> dict[str, PolicySizes]:
        """The size of each container from the autoscaler's policy; containers without a decision are missing."""
        found: dict[str, PolicySizes] = {}
        for key in self._of.get(vpa, ()):
            estimate = self._sized.get(self._policy[key], {}).get(self.curves.numbers[key])
            if estimate is not None:
                found[key.container] = estimate
        return found

    def failed(self, vpa: VpaId) -> str:
        """Why the autoscaler's policy gives no sizes, for the first affected container; empty if it gives sizes
        to all."""
        for name, estimate in sorted(self.of(vpa).items()):
            if estimate.failed:
                return f"container {name}: {estimate.failed}"
        return ""

    def judged(self, vpa: VpaId) -> dict[str, dict[str, dict[str, Quality]]]:
        """The quality that each policy's sizes would have had, by container, policy and resource."""
        found: dict[str, dict[str, dict[str, Quality]]] = {}
        for key in self._of.get(vpa, ()):
            curve = self.curves.numbers[key]
            for name, each in self._sized.items():
                if curve in each and each[curve].quality:
                    found.setdefault(key.container, {})[name] = each[curve].quality
        return found

    def totals(self) -> dict[tuple[str, str], list[Quality]]:
        """The quality over all containers, by policy and resource."""
        found: dict[tuple[str, str], list[Quality]] = {}
        for name, each in self._sized.items():
            for estimated in list(each.values()):
                for resource, quality in estimated.quality.items():
                    found.setdefault((name, resource), []).append(quality)
        return found
