"""Detects containers that use up their CPU limit, and those whose bursts are throttled, in new samples."""

from __future__ import annotations

import numpy as np

from podfit.api.objects import Object
from podfit.api.quantity import Quantity, QuantityError
from podfit.vpa.model.objects.pods import containers
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.evidence.starvation import LimitSample, Starvation
from podfit.vpa.recommender.decide.fleet.fleet import NO_ROW, Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowContainer
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, Pod
from podfit.vpa.recommender.intake.usage import Scraped

Written = dict[str, tuple[str | None, str | None]]
"""The CPU limit and request of each container, as written in the pod."""


def cpu_limits(pod: Object) -> Written:
    """The CPU limits and requests in force: those in the container's status if it has any, else those in the spec."""
    found = {container.get("name") or "": container.get("resources") for container in containers(pod)}
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("resources") is not None:
            found[status.get("name") or ""] = status["resources"]
    written: Written = {}
    for name, resources in found.items():
        if resources and "cpu" in (limits := resources.get("limits") or {}):
            written[name] = limits["cpu"], (resources.get("requests") or {}).get("cpu")
    return written


def set_limits(pod: Pod, limits: Written, now: Seconds) -> None:
    for name, state in pod.containers.items():
        if isinstance(state, RowContainer):
            limit, request = limits.get(name, (None, None))
            state.fleet.set_limit(state.handle, _milli(limit), _milli(request), now)


def _milli(text: str | None) -> int:
    try:
        return min(Quantity.parse(text).milli, 2**62) if text is not None else 0
    except QuantityError:
        return 0


def note_starved(found: Scraped, fleet: Fleet, starvation: Starvation, config: Config) -> None:
    """Records starved containers. It is called before the samples are ingested, because only new ones count."""
    if not config.starved_above or not len(found.handles):
        return
    limits, rows = fleet.limit[found.handles], fleet.row[found.handles]
    # A sample is an average, so one that began before the limit changed is not compared with the limit.
    begun = found.instants - found.windows
    at_limit = (limits > 0) & (found.cpu >= limits * config.starved_above) & (begun >= fleet.lowered[found.handles])
    concerned = at_limit | ((rows != NO_ROW) & fleet.watched[rows])
    throttled = np.zeros(len(rows), np.bool_)
    if config.throttled_above:
        throttled = (limits > 0) & (found.throttled >= config.throttled_above) & ~at_limit
        throttled &= begun >= fleet.changed[found.handles]
        concerned |= throttled
    if not concerned.any():
        return
    concerned &= (found.cpu >= 0) & (found.instants > fleet.last_cpu[found.handles])
    for at in np.flatnonzero(concerned).tolist():
        pod, handle = found.pods[at], int(found.handles[at])
        key = AggregateKey(pod.id[0], found.names[at], pod.label_text)
        limit, used, instant = int(limits[at]), int(found.cpu[at]), float(found.instants[at])
        given = int(fleet.request[handle]) or limit
        sample = LimitSample(handle, instant, used, limit, given, bool(at_limit[at]), bool(throttled[at]))
        watched = starvation.note(key, sample)
        if rows[at] != NO_ROW:
            fleet.watched[rows[at]] = watched
