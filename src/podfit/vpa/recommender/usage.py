"""Usage as it comes: the resource metrics API polled once a pass, whole scrapes at a time into the fleet's arrays."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
from podfit.vpa.recommender.decide.oom import Oom

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


@dataclass(slots=True)
class Scraped:
    """Samples of known containers, as columns; `who` names them where somebody wants to keep them."""

    who: list[tuple[Pod, str]] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)
    instants: list[Seconds] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def batch(self, ooms: Sequence[Oom] = ()) -> Batch:
        """For a history, in order of time."""
        order = np.argsort(np.array(self.instants), kind="stable")
        series = [Series(pod.id[0], pod.id[1], name, pod.label_text) for pod, name in self.who]
        times, cpu, memory = np.array(self.instants), np.array(self.cpu, np.int64), np.array(self.memory, np.int64)
        return Batch(series, order, times[order], cpu[order], memory[order], ooms)


def scraped(items: Iterable[Object], cluster: ClusterState, now: Seconds) -> Scraped:
    """What the items say about known containers; what cannot be read is left out."""
    found = Scraped()
    instants: dict[object, Seconds] = {}
    for item in items:
        meta = item.get("metadata") or {}
        pod = cluster.pod((meta.get("namespace") or "", meta.get("name") or ""))
        if pod is None:
            continue
        stamp = item.get("timestamp")
        if not isinstance(stamp, str):
            continue
        if stamp not in instants:
            instants[stamp] = _instant(stamp, now)
        if instants[stamp] == NEVER:
            continue
        for container in item.get("containers") or ():
            _add(found, pod, container, instants[stamp])
    return found


def _instant(stamp: str, now: Seconds) -> Seconds:
    """NEVER for what is no time, or one that lies in the future."""
    try:
        instant = from_rfc3339(stamp)
    except ValueError:
        return NEVER
    return instant if instant <= now + AHEAD_S else NEVER


def _add(found: Scraped, pod: Pod, container: Object, instant: Seconds) -> None:
    name = container.get("name") or ""
    state = pod.containers.get(name)
    if isinstance(state, RowContainer):
        usage = container.get("usage") or {}
        found.who.append((pod, name))
        found.handles.append(state.handle)
        found.instants.append(instant)
        found.cpu.append(_amount(usage.get("cpu"), True))
        found.memory.append(_amount(usage.get("memory"), False))


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


def ingest(found: Scraped, fleet: Fleet) -> int:
    """Puts samples into the arrays, which refuse negative ones; answers how many CPU samples were new."""
    if not found.handles:
        return 0
    order = np.argsort(np.array(found.instants), kind="stable")
    handles, instants = np.array(found.handles, np.int64)[order], np.array(found.instants)[order]
    fleet.ingest_memory(handles, instants, np.array(found.memory, np.int64)[order])
    return fleet.ingest_cpu(handles, instants, np.array(found.cpu, np.int64)[order])


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
