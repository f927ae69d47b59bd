"""The recommender's writes: changed statuses, checkpoints, and the deletion of orphaned checkpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from podfit.api.objects import Object
from podfit.api.registry.kinds import VPA, VPA_CHECKPOINT
from podfit.api.status import ApiError
from podfit.client import Cache, Client
from podfit.client.cache import key_of
from podfit.client.rest import JSON_PATCH
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.checkpoints import checkpoints_of_all, status_patch
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa, VpaId
from podfit.vpa.recommender.decide.status import Outcome
from podfit.vpa.recommender.measures import RecommenderMeasures
from podfit.vpa.recommender.serving.explain import SETTINGS, USAGE

log = logging.getLogger(__name__)

AT_ONCE = 250
"""Autoscalers whose checkpoints are built in one batch: few enough to stay responsive meanwhile, and to fit into
memory."""
State = tuple[int, float]
Ready = tuple[Vpa, State, list[Object]]


async def write_statuses(
    client: Client, outcomes: Mapping[VpaId, Outcome], workers: int, measures: RecommenderMeasures
) -> dict[VpaId, str]:
    """Patches changed statuses; returns the errors by autoscaler."""
    gate = asyncio.Semaphore(max(1, workers))
    failed: dict[VpaId, str] = {}

    async def write(id: VpaId, outcome: Outcome) -> None:
        async with gate:
            try:
                await client.patch(VPA, *id, outcome.patch, "status", JSON_PATCH)
                measures.writes.labels("status", "ok").inc()
            except (ApiError, Unreachable) as error:
                measures.writes.labels("status", "failed").inc()
                if not (isinstance(error, ApiError) and error.code == 404):
                    failed[id] = str(error)
                    log.warning("status of autoscaler %s/%s: %s", *id, error)

    await asyncio.gather(*(write(id, outcome) for id, outcome in outcomes.items() if outcome.patch is not None))
    return failed


class Checkpoints:
    """Writes one object per container, the oldest first, for as long as a pass allows."""

    def __init__(
        self,
        client: Client,
        cache: Cache,
        clock: Clock,
        workers: int,
        measures: RecommenderMeasures,
        note_of: Callable[[Vpa], str] = lambda vpa: "",
        curve_of: Callable[[VpaId, str], str] = lambda vpa, container: "",
    ) -> None:
        """`note_of` returns the settings of an autoscaler's recommender, for explanations; `curve_of` returns the usage
        of one of its containers, for policies."""
        self._client, self._cache, self._clock = client, cache, clock
        self._workers, self._measures, self._note_of, self._curve_of = max(1, workers), measures, note_of, curve_of
        self._written: dict[VpaId, tuple[Seconds, State]] = {}

    async def write(self, cluster: ClusterState, now: Seconds, timeout_s: float) -> int:
        """Writes checkpoints; returns the number of autoscalers. Each worker writes at least one, even after the time
        limit."""
        for id in [id for id in self._written if id not in cluster.vpas]:
            del self._written[id]
        # The peaks of open windows are excluded. An interval later they have ended, and may be the only samples.
        open_after = now - cluster.config.memory_aggregation_interval
        waiting = [vpa for vpa in cluster.vpas.values() if self._is_due(vpa, open_after)]
        waiting.sort(key=lambda vpa: self._written.get(vpa.id, (float("-inf"), None))[0])
        deadline = self._clock.monotonic() + timeout_s
        done = 0
        for start in range(0, len(waiting), AT_ONCE):
            part = waiting[start : start + AT_ONCE]
            states = [_state(vpa) for vpa in part]
            ready = list(zip(part, states, checkpoints_of_all(cluster, part, now), strict=True))
            done += await self._write_part(ready, now, deadline)
            if self._clock.monotonic() >= deadline:
                break
        return done

    def _is_due(self, vpa: Vpa, open_after: Seconds) -> bool:
        written, state = self._written.get(vpa.id, (float("-inf"), None))
        return written <= open_after or state != _state(vpa)

    async def _write_part(self, ready: list[Ready], now: Seconds, deadline: float) -> int:
        ready.reverse()
        done = 0

        async def work() -> None:
            nonlocal done
            while ready:
                vpa, state, checkpoints = ready.pop()
                note = self._note_of(vpa)
                if all([await self._put(vpa.id, checkpoint, note) for checkpoint in checkpoints]):
                    self._written[vpa.id] = (now, state)
                done += 1
                if self._clock.monotonic() >= deadline:
                    return

        await asyncio.gather(*(work() for _ in range(min(self._workers, len(ready)))))
        return done

    async def _put(self, vpa: VpaId, checkpoint: Object, note: str) -> bool:
        namespace, name = vpa[0], checkpoint["metadata"]["name"]
        notes = {SETTINGS: note, USAGE: self._curve_of(vpa, checkpoint["spec"]["containerName"])}
        patch = [*status_patch(checkpoint), *self._note_patch(namespace, name, notes)]
        try:
            try:
                await self._client.patch(VPA_CHECKPOINT, namespace, name, patch, content_type=JSON_PATCH)
            except ApiError as error:
                if error.code != 404:
                    raise
                await self._client.create(VPA_CHECKPOINT, _whole(namespace, checkpoint, notes))
        except (ApiError, Unreachable) as error:
            self._measures.writes.labels("checkpoint", "failed").inc()
            log.warning("checkpoint %s/%s: %s", namespace, name, error)
            return False
        self._measures.writes.labels("checkpoint", "ok").inc()
        return True

    def _note_patch(self, namespace: str, name: str, notes: Mapping[str, str]) -> list[Object]:
        known = self._cache.get(namespace, name)
        standing = ((known or {}).get("metadata") or {}).get("annotations") or {}
        if known is None or all(standing.get(key, "") == note for key, note in notes.items()):
            return []
        others = {key: value for key, value in standing.items() if key not in notes}
        wanted = others | {key: note for key, note in notes.items() if note}
        return [{"op": "add", "path": "/metadata/annotations", "value": wanted}]

    async def collect(self, exists: Callable[[VpaId], bool], cares: Callable[[str], bool]) -> int:
        """Deletes the checkpoints of deleted autoscalers, but not those of other recommenders."""
        gone = []
        for checkpoint in self._cache:
            namespace, name = key_of(checkpoint)
            owner = (namespace, (checkpoint.get("spec") or {}).get("vpaObjectName") or "")
            if cares(namespace) and not exists(owner):
                gone.append((namespace, name))
        for namespace, name in gone:
            try:
                await self._client.delete(VPA_CHECKPOINT, namespace, name)
            except (ApiError, Unreachable) as error:
                log.info("checkpoint %s/%s: %s", namespace, name, error)
        return len(gone)


def _whole(namespace: str, checkpoint: Object, notes: Mapping[str, str]) -> Object:
    annotations = {key: note for key, note in notes.items() if note}
    meta = {**checkpoint["metadata"], "namespace": namespace, **({"annotations": annotations} if annotations else {})}
    return {
        "apiVersion": VPA_CHECKPOINT.api_version,
        "kind": VPA_CHECKPOINT.kind,
        **checkpoint,
        "metadata": meta,
    }


def _state(vpa: Vpa) -> State:
    """A value that changes with every new sample."""
    states = [*vpa.aggregates.values(), *vpa.initial.values()]
    return sum(state.count for state in states), sum(state.memory.total for state in states)
