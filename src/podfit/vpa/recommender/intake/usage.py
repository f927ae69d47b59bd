"""Reads usage once a pass from the resource metrics API, and ingests whole scrapes into the fleet's arrays.

A meter of this process returns numbers, any other server the API's objects. Both lead to the same samples.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from podfit.api.numbers import ACCEPT, THROTTLED, Numbers
from podfit.api.objects import Object
from podfit.api.quantity import Quantity, QuantityError
from podfit.api.registry.kinds import POD_METRICS
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.transport import Unreachable
from podfit.vpa.flags import duration
from podfit.vpa.history.base import NONE, Batch, Series
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339
from podfit.vpa.recommender.decide.evidence.oom import Oom
from podfit.vpa.recommender.decide.fleet.arena import Floats, Ints
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowContainer
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Pod, PodId

log = logging.getLogger(__name__)

AHEAD_S = 600.0
"""Samples further in the future than this come from a wrong clock; counting them would block correct ones."""
WINDOW_S = 60.0
AT_ONCE = 500
"""The number of PodMetrics, or containers, that are processed in one batch."""


class UsageUnavailable(Exception):
    """The metrics API did not respond, or responded with an error."""


Used = Sequence[Object] | Numbers
"""PodMetrics, or the numbers from a meter of this process."""


async def fetch(client: Client, namespace: str = "") -> Used:
    """Fetches the usage of all pods. Raises UsageUnavailable."""
    headers = {"Accept": ACCEPT} if client.shares else None
    try:
        answer = await client.raw("GET", POD_METRICS.path(namespace), headers=headers)
    except (ApiError, Unreachable) as error:
        raise UsageUnavailable(str(error)) from error
    if not isinstance(answer, dict):
        return []
    if isinstance(numbers := answer.get("numbers"), Numbers):
        return numbers
    return [item for item in answer.get("items") or () if isinstance(item, dict)]


@dataclass(frozen=True, slots=True)
class Scraped:
    """Samples of known containers, as columns. Pods and names are for callers that store the samples."""

    pods: Sequence[Pod]
    names: Sequence[str]
    handles: Ints
    instants: Floats
    cpu: Ints
    memory: Ints
    throttled: Floats
    """The fraction of periods throttled; 0 if not reported."""
    windows: Floats
    """The seconds over which the CPU usage is averaged."""

    def batch(self) -> Batch:
        """The samples as a batch for a history, in order of time."""
        order = np.argsort(self.instants, kind="stable")
        series = [Series(*pod.id, name, pod.label_text) for pod, name in zip(self.pods, self.names, strict=True)]
        return Batch(series, order, self.instants[order], self.cpu[order], self.memory[order])


def ooms_alone(ooms: Sequence[Oom]) -> Batch:
    nothing = np.zeros(0, np.int64)
    return Batch((), nothing, np.zeros(0), nothing, nothing, ooms)


def in_parts(used: Used, cluster: ClusterState, now: Seconds, gone: Collection[PodId] = ()) -> Iterator[Scraped]:
    """Samples of known containers, in batches, between which other tasks run. `gone` are known pods that were
    deleted."""
    for start in range(0, len(used), AT_ONCE):
        part = used[start : start + AT_ONCE]
        yield counted(part, cluster, now, gone) if isinstance(part, Numbers) else scraped(part, cluster, now)


def counted(numbers: Numbers, cluster: ClusterState, now: Seconds, gone: Collection[PodId] = ()) -> Scraped:
    """Samples from numbers, rounded as the API would print them and `scraped` would parse them."""
    pods: list[Pod] = []
    names: list[str] = []
    handles: list[int] = []
    found: list[int] = []
    for index, (namespace, name, container) in enumerate(numbers.keys):
        id = (namespace, name)
        pod = cluster.pod(id)
        state = pod.containers.get(container) if pod is not None else None
        if pod is None or not isinstance(state, RowContainer) or id in gone:
            continue
        pods.append(pod)
        names.append(container)
        handles.append(state.handle)
        found.append(index)
    columns = numbers.at, numbers.cores, numbers.memory_bytes, numbers.throttled, numbers.windows_s
    at, cores, memory, throttled, windows = (np.array(column, np.float64)[found] for column in columns)
    nanos = _whole(cores * 1e9)
    milli = np.where(nanos == NONE, NONE, -(-nanos // 10**6))
    part = np.rint(throttled * 1000) / 1000
    made = Scraped(pods, names, np.array(handles, np.int64), np.floor(at), milli, _whole(memory), part, windows)
    ahead = made.instants > now + AHEAD_S
    return _without(made, ahead) if ahead.any() else made


def _whole(amounts: Floats) -> Ints:
    """Rounds to whole numbers; NONE for values that are too large."""
    rounded = np.rint(amounts)
    return np.where((rounded >= 0) & (rounded < 2.0**62), rounded, NONE).astype(np.int64)


def _without(found: Scraped, left_out: NDArray[np.bool_]) -> Scraped:
    kept = ~left_out
    pods, names = list(compress(found.pods, kept)), list(compress(found.names, kept))
    instants, more = found.instants[kept], (found.throttled[kept], found.windows[kept])
    return Scraped(pods, names, found.handles[kept], instants, found.cpu[kept], found.memory[kept], *more)


@dataclass(slots=True)
class _Columns:
    pods: list[Pod] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)
    instants: list[Seconds] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    throttled: list[float] = field(default_factory=list)
    windows: list[float] = field(default_factory=list)

    def scraped(self) -> Scraped:
        handles, cpu, memory = (np.array(column, np.int64) for column in (self.handles, self.cpu, self.memory))
        columns = self.instants, self.throttled, self.windows
        instants, throttled, windows = (np.array(column, np.float64) for column in columns)
        return Scraped(self.pods, self.names, handles, instants, cpu, memory, throttled, windows)


def scraped(items: Iterable[Object], cluster: ClusterState, now: Seconds) -> Scraped:
    """Samples from the API's objects, of known containers; invalid values are skipped."""
    found = _Columns()
    # Upstream counts a missing resource as 0.
    absent = 0 if cluster.config.recommend_without_samples else NONE
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
        window = _window(item.get("window"))
        for container in item.get("containers") or ():
            _add(found, pod, container, instants[stamp], window, absent)
    return found.scraped()


def _instant(stamp: str, now: Seconds) -> Seconds:
    """Parses a timestamp; NEVER if it is invalid or in the future."""
    try:
        instant = from_rfc3339(stamp)
    except ValueError:
        return NEVER
    return instant if instant <= now + AHEAD_S else NEVER


def _window(text: object) -> Seconds:
    """Parses the window of a sample; a minute if it is invalid."""
    try:
        return duration(text) if isinstance(text, str) else WINDOW_S
    except ValueError:
        return WINDOW_S


def _add(found: _Columns, pod: Pod, container: Object, instant: Seconds, window: Seconds, absent: int) -> None:
    name = container.get("name") or ""
    state = pod.containers.get(name)
    if isinstance(state, RowContainer):
        usage = container.get("usage") or {}
        found.pods.append(pod)
        found.names.append(name)
        found.handles.append(state.handle)
        found.instants.append(instant)
        found.cpu.append(_amount(usage.get("cpu"), True, absent))
        found.memory.append(_amount(usage.get("memory"), False, absent))
        found.windows.append(window)
        found.throttled.append(max(0, _amount(usage.get(THROTTLED), True, 0)) / 1000)


def _amount(text: object, milli: bool, absent: int) -> int:
    """Parses a quantity: `absent` if the resource is missing, NONE if the quantity is invalid."""
    if text is None:
        return absent
    if not isinstance(text, (str, int, float)):
        return NONE
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return NONE
    amount = quantity.milli if milli else quantity.value
    return amount if 0 <= amount < 2**62 else NONE


def ingest(found: Scraped, fleet: Fleet) -> int:
    """Adds samples to the arrays, which reject negative ones; returns the number of new CPU samples."""
    if not len(found.handles):
        return 0
    order = np.argsort(found.instants, kind="stable")
    handles, instants = found.handles[order], found.instants[order]
    fleet.ingest_memory(handles, instants, found.memory[order])
    return fleet.ingest_cpu(handles, instants, found.cpu[order])


def ingest_handles(fleet: Fleet, handles: np.ndarray, batch: Batch) -> int:  # type: ignore[type-arg]
    """Adds the samples of a batch; returns how many CPU samples were accepted. `handles[i]` is the handle of
    `batch.series[i]`, NONE if it is unknown."""
    who = handles[batch.index]
    known = who != NONE
    cpu, memory = known & (batch.cpu != NONE), known & (batch.memory != NONE)
    accepted = fleet.ingest_cpu(who[cpu], batch.times[cpu], batch.cpu[cpu])
    return accepted + fleet.ingest_memory(who[memory], batch.times[memory], batch.memory[memory])


def heal_clock(fleet: Fleet, now: Seconds) -> int:
    """Resets last instants that are in the future: if the clock was set back, new samples would all look old.

    Returns the number of affected containers. Their histograms do not change.
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
