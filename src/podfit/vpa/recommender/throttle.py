"""Finds, in samples as they come, the containers that use up their CPU limit."""

from __future__ import annotations

import numpy as np

from podfit.api.quantity import Quantity, QuantityError
from podfit.api.status import Object
from podfit.vpa.model.pods import containers
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.cluster import AggregateKey, Pod
from podfit.vpa.recommender.decide.fleet.fleet import NO_ROW, Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowContainer
from podfit.vpa.recommender.decide.starvation import Starvation
from podfit.vpa.recommender.usage import Scraped

WINDOW_S = 60.0
"""A sample is an average over at most so long. One that began before the limit was lowered is not compared with it."""


def cpu_limits(pod: Object) -> dict[str, str]:
    """The CPU limits in force as they are written: the container's status, where it says so, else the spec."""
    found = {one.get("name") or "": one.get("resources") for one in containers(pod)}
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("resources") is not None:
            found[status.get("name") or ""] = status["resources"]
    limits = {name: ((resources or {}).get("limits") or {}).get("cpu") for name, resources in found.items()}
    return {name: limit for name, limit in limits.items() if limit is not None}


def set_limits(pod: Pod, limits: dict[str, str], now: Seconds) -> None:
    for name, state in pod.containers.items():
        if isinstance(state, RowContainer):
            state.fleet.set_limit(state.handle, _milli(limits.get(name)), now)


def _milli(text: str | None) -> int:
    try:
        return min(Quantity.parse(text).milli, 2**62) if text is not None else 0
    except QuantityError:
        return 0


def note_starved(found: Scraped, fleet: Fleet, starvation: Starvation, above: float) -> None:
    """Before the samples are ingested: those that are new count. `above` is the part of the limit from which on."""
    if not above or not len(found.handles):
        return
    limits, rows = fleet.limit[found.handles], fleet.row[found.handles]
    at_limit = (limits > 0) & (found.cpu >= limits * above)
    at_limit &= found.instants - WINDOW_S >= fleet.lowered[found.handles]
    concerned = at_limit | ((rows != NO_ROW) & fleet.watched[rows])
    if not concerned.any():
        return
    concerned &= (found.cpu >= 0) & (found.instants > fleet.last_cpu[found.handles])
    for at in np.flatnonzero(concerned).tolist():
        pod, starved = found.pods[at], bool(at_limit[at])
        key = AggregateKey(pod.id[0], found.names[at], pod.label_text)
        amount = int(limits[at]) if starved else int(found.cpu[at])
        watched = starvation.note(key, int(found.handles[at]), amount, float(found.instants[at]), starved)
        if rows[at] != NO_ROW:
            fleet.watched[rows[at]] = watched
