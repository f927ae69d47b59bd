"""Usage as it comes: the resource metrics API polled once a pass, whole scrapes at a time into the fleet's arrays."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator

import numpy as np

from podfit.api.kinds import POD_METRICS
from podfit.api.quantity import Quantity, QuantityError
from podfit.api.status import ApiError, Object
from podfit.client import Client
from podfit.client.transport import Unreachable
from podfit.vpa.history.base import NONE, Batch, Series
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339
from podfit.vpa.recommender.decide.cluster import ClusterState, Pod
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowContainer

log = logging.getLogger(__name__)

AHEAD_S = 600.0
"""Samples further in the future than this come from a clock that is wrong; counting them would lock out true ones."""


class UsageGone(Exception):
    """The metrics API did not answer."""


async def fetch(client: Client, namespace: str = "") -> list[Object]:
    """All PodMetrics. Raises UsageGone."""
    try:
        answer = await client.list(POD_METRICS, namespace)
    except (ApiError, Unreachable) as error:
        raise UsageGone(str(error)) from error
    items = answer.get("items") if isinstance(answer, dict) else None
    return [item for item in items or () if isinstance(item, dict)]


def samples(items: Iterable[Object], cluster: ClusterState, now: Seconds) -> Batch:
    """What the items say about known containers, in order of time; what cannot be read is left out."""
    rows = [
        (instant, pod, name, cpu, memory)
        for item in items
        for instant, pod, name, cpu, memory in _of_pod(item, cluster, now)
    ]
    rows.sort(key=lambda row: row[0])
    who = [Series(pod.id[0], pod.id[1], name, pod.label_text) for _, pod, name, _, _ in rows]
    count = len(rows)
    return Batch(
        who,
        np.arange(count),
        np.fromiter((row[0] for row in rows), np.float64, count),
        np.fromiter((row[3] for row in rows), np.int64, count),
        np.fromiter((row[4] for row in rows), np.int64, count),
    )


def _of_pod(item: Object, cluster: ClusterState, now: Seconds) -> Iterator[tuple[Seconds, Pod, str, int, int]]:
    meta = item.get("metadata") or {}
    pod = cluster.pod((meta.get("namespace") or "", meta.get("name") or ""))
    if pod is None:
        return
    try:
        instant = from_rfc3339(item.get("timestamp"))
    except (ValueError, TypeError, AttributeError):
        return
    if instant == NEVER or not math.isfinite(instant) or instant > now + AHEAD_S:
        return
    for container in item.get("containers") or ():
        name = container.get("name") or ""
        if name in pod.containers:
            usage = container.get("usage") or {}
            yield instant, pod, name, _amount(usage.get("cpu"), True), _amount(usage.get("memory"), False)


def _amount(text: object, milli: bool) -> int:
    """Upstream enters 0 for a resource that is not reported; a value that is no quantity is left out here."""
    if text is None:
        return 0
    if not isinstance(text, (str, int, float)):
        return NONE
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return NONE
    amount = quantity.milli if milli else quantity.value
    return amount if 0 <= amount < 2**62 else NONE


def ingest(batch: Batch, cluster: ClusterState) -> int:
    """Puts samples of known containers into the arrays; answers how many CPU samples were new."""
    fleet = cluster.fleet
    assert fleet is not None
    handles = np.full(len(batch.series), NONE, np.int64)
    for number, one in enumerate(batch.series):
        pod = cluster.pod((one.namespace, one.pod))
        state = pod.containers.get(one.container) if pod is not None else None
        if isinstance(state, RowContainer):
            handles[number] = state.handle
    return ingest_handles(fleet, handles, batch)


def ingest_handles(fleet: Fleet, handles: np.ndarray, batch: Batch) -> int:  # type: ignore[type-arg]
    """`handles[i]` stands for `batch.series[i]`, NONE for nobody."""
    who = handles[batch.index]
    known = who != NONE
    cpu, memory = known & (batch.cpu != NONE), known & (batch.memory != NONE)
    accepted = fleet.ingest_cpu(who[cpu], batch.times[cpu], batch.cpu[cpu])
    fleet.ingest_memory(who[memory], batch.times[memory], batch.memory[memory])
    return accepted


def heal_clock(fleet: Fleet, now: Seconds) -> int:
    """Forgets last instants that lie in the future: the clock went back, and new samples would all look old.

    Answers how many containers were affected. Their histograms stay as they are.
    """
    limit = now + AHEAD_S
    ahead = (fleet.last_cpu > limit) | (fleet.last_memory > limit)
    if not ahead.any():
        return 0
    fleet.last_cpu[ahead] = NEVER
    fleet.last_memory[ahead] = NEVER
    fleet.window_end[ahead] = NEVER
    fleet.memory_peak[ahead] = 0
    fleet.oom_peak[ahead] = 0
    return int(ahead.sum())
