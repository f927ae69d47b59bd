"""Runs policies beside the recommender's loop: they receive every sample and kill, and size the autoscalers that name
them.

An invalid size from a policy becomes a log line and a condition; until it is fixed, the default recommender's sizes are
used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from podfit.api.objects import Object
from podfit.vpa.history.base import NONE, Batch
from podfit.vpa.model.objects.pods import annotations_of
from podfit.vpa.model.times import Seconds
from podfit.vpa.policies.base import Costs
from podfit.vpa.recommender.decide.curves.applying import given_by_policy, with_policy
from podfit.vpa.recommender.decide.curves.codes import BadCurve
from podfit.vpa.recommender.decide.curves.curves import slot_of
from podfit.vpa.recommender.decide.curves.live import NAMES, LivePolicies
from podfit.vpa.recommender.decide.estimates import estimate_vpas
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa, VpaId
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.recommender.intake.usage import Scraped
from podfit.vpa.recommender.serving.explain import USAGE

log = logging.getLogger(__name__)


class Policies:
    def __init__(
        self,
        cluster: ClusterState,
        plugin_of: Callable[[Vpa], str],
        shadows: Sequence[str] = (),
        costs: Costs | None = None,
    ) -> None:
        assert cluster.fleet is not None
        self._cluster, self._fleet, self._plugin_of = cluster, cluster.fleet, plugin_of
        self.live = LivePolicies(cluster.fleet, shadows, costs=costs)
        self.problems: dict[VpaId, str] = {}
        """Autoscalers whose policy gives no sizes, and the reason."""
        self._chosen: dict[str, list[Vpa]] = {}
        self._followed = -1
        """The number of aggregates when the mapping of samples was last updated."""

    def follow(self) -> dict[str, list[Vpa]]:
        """Makes the policies track all autoscalers; returns these by the recommender that sizes them."""
        found: dict[str, list[Vpa]] = {}
        for vpa in self._cluster.vpas.values():
            found.setdefault(self._plugin_of(vpa), []).append(vpa)
        self.live.follow(found)
        self._chosen, self._followed = found, self._cluster.aggregates_known
        return found

    # --- usage

    def scraped(self, found: Scraped) -> None:
        """Adds samples. It is called before the fleet gets them, so that samples which the fleet already has are not
        counted twice."""
        if self.live:
            fresh = np.where(found.instants > self._fleet.last_cpu[found.handles], found.cpu, NONE)
            self.live.curves.take(found.handles, found.instants, fresh, found.memory)

    def take_past(self, handles: NDArray[np.int64], batch: Batch) -> None:
        """Adds samples of the history. `handles[i]` is the handle of `batch.series[i]`. Deleted pods may have added
        aggregates."""
        if self._cluster.aggregates_known != self._followed:
            self.follow()
        if self.live:
            self.live.curves.take(handles[batch.index], batch.times, batch.cpu, batch.memory)

    def past_taken(self, until: Seconds) -> None:
        self.live.curves.settle(slot_of(until) + 1)

    def killed(self, state: AggregateState | None, instant: Seconds, memory: int) -> None:
        """Records an out-of-memory kill that counts as this much memory."""
        if self.live and isinstance(state, RowAggregate):
            self.live.killed(state.row, instant, memory)

    def restore(self, checkpoints: Iterable[Object], now: Seconds) -> dict[VpaId, str]:
        """Restores the usage of containers from checkpoints; returns the errors by autoscaler."""
        self.follow()
        refused: dict[VpaId, str] = {}
        for checkpoint in checkpoints if self.live else ():
            text, spec = annotations_of(checkpoint).get(USAGE), checkpoint.get("spec") or {}
            name = checkpoint["metadata"]["name"]
            id = (checkpoint["metadata"].get("namespace", ""), spec.get("vpaObjectName") or "")
            try:
                if text and id in self._cluster.vpas:
                    self.live.restore(id, spec.get("containerName") or "", text, now)
            except BadCurve as error:
                refused[id] = f"Annotation {USAGE} of checkpoint {name} cannot be used: {error}"
                log.warning("checkpoint %s/%s: annotation %s: %s", id[0], name, USAGE, error)
        return refused

    # --- sizes

    async def refresh(self, now: Seconds) -> None:
        """Computes the sizes that are due, in a thread: ten thousand containers, which are all due after a start, take
        some seconds."""
        if self.live:
            await asyncio.to_thread(self.live.refresh, now)
        problems = {id: why for id in self._cluster.vpas if (why := self.live.failed(id))} if self.live else {}
        for id, why in problems.items():
            if id not in self.problems:
                log.warning("autoscaler %s/%s: %s", *id, why)
        self.problems = problems

    def apply(self, sizes: dict[VpaId, dict[str, Estimate]]) -> None:
        """Replaces sizes from histograms by those of policies."""
        for name in NAMES:
            for vpa in self._chosen.get(name, ()):
                with_policy(vpa, sizes[vpa.id], self.live.of(vpa.id), self._cluster.config)

    def given(self, vpa: Vpa) -> dict[str, Estimate]:
        """The size of each container from the autoscaler's policy, before any later adjustment."""
        given = self.live.of(vpa.id)
        before = estimate_vpas(self._cluster, [vpa])[vpa.id] if given else {}
        return given_by_policy(vpa, before, given, self._cluster.config)

    def saved(self, vpa: VpaId, container: str) -> str:
        """The container's usage as text, for a checkpoint."""
        return self.live.saved(vpa, container)
