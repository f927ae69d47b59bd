"""Estimates the seats of a request, and how long they are held after the response, like kube-apiserver 1.36.

The seats of a list depend on the bytes that it holds in memory at once. Writes of objects with many watchers keep some
seats for the time needed to send the events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.apiserver.flows.borrowing import LevelBounds
from podfit.apiserver.request import Request
from podfit.apiserver.routes import Route
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.writing.options import first

BYTES_PER_SEAT = 100_000
STREAMED_BYTES = 1_000_000
"""A list from memory is sent in chunks: it never holds more than this."""
MOST_LIST_SEATS = 100
MOST_WRITE_SEATS = 10
WATCHES_PER_SEAT = 10
EVENT_S = 0.005
"""The time to send an event to the watches of one seat."""
MOST_OF_LEVEL = 0.15
"""The fraction of a level's nominal seats that one request may take."""
_WRITES = frozenset(("create", "update", "patch", "delete"))
_DIGITS = 19
_BY_NAME = "metadata.name="


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    seats: int = 1
    final_seats: int = 0
    extra_s: float = 0.0
    """How long the final seats are held after the response; the client does not wait for that."""
    watches: int | None = None
    """For writes: how many watches may get the change."""

    @property
    def most(self) -> int:
        return max(self.seats, self.final_seats)

    def within(self, limit: int) -> WorkEstimate:
        """The equivalent work in a level of `limit` seats: fewer final seats, held for longer."""
        if not 0 < limit < self.final_seats:
            return self
        return WorkEstimate(self.seats, limit, self.final_seats * self.extra_s / limit, self.watches)


ONE_SEAT = WorkEstimate()


@dataclass(frozen=True, slots=True)
class ListRequest:
    """The parameters of a list that determine how much of it is in memory at once."""

    limit: int = 0
    """The limit of the list; 0: all objects."""
    single: bool = False
    from_storage: bool = False
    """Whether Kubernetes serves the list from etcd instead of its cache: pages after the first, and exact revisions."""
    selective: bool = False


def most_seats(spec: Object, bounds: LevelBounds) -> int:
    """The most seats of a level that one request may take; 0 if the level does not limit that."""
    response = (spec.get("limited") or {}).get("limitResponse") or {}
    queuing = response.get("queuing")
    if queuing is None:
        return 0
    part = min(math.ceil(bounds.nominal * MOST_OF_LEVEL), bounds.nominal // (queuing.get("handSize") or 1))
    return max(1, part)


def list_work(count: int, average_bytes: int, listing: ListRequest, most: int) -> WorkEstimate:
    """The work of a list of `count` stored objects; `most` is the result of `most_seats`."""
    held = min(listing.limit, count) if listing.limit > 0 else count
    if listing.single:
        held = 1
    elif listing.from_storage and listing.selective:
        held = max(held, count // 2)
    used = held * average_bytes
    seats = math.ceil((used if listing.from_storage else min(used, STREAMED_BYTES)) / BYTES_PER_SEAT)
    return WorkEstimate(max(1, min(seats, most or MOST_LIST_SEATS, MOST_LIST_SEATS)))


@lru_cache(1024)
def write_work(watches: int, most: int) -> WorkEstimate:
    if watches < WATCHES_PER_SEAT:
        return WorkEstimate(watches=watches)
    seats = math.ceil(watches / WATCHES_PER_SEAT)
    held = min(seats, most or MOST_WRITE_SEATS, MOST_WRITE_SEATS)
    # The same work on fewer seats takes longer.
    return WorkEstimate(1, held, seats * EVENT_S / held, watches)


def work_of(objects: Objects, request: Request, route: Route | None, most: int) -> WorkEstimate:
    if route is None or not route.resource:
        return ONE_SEAT
    is_write = route.verb in _WRITES
    if not is_write and route.verb != "list" and not (route.verb == "watch" and _sends_state(request)):
        return ONE_SEAT
    kind = objects.registry.resource(route.group, route.version, route.resource)
    if kind is None or route.subresource == "token":
        # The object belongs to another server, or is a token of a service account, which is not stored.
        return ONE_SEAT
    if is_write:
        return write_work(objects.hub.followers(kind.storage_prefix, route.namespace, route.name), most)
    return _list_work(objects, request, route, kind, most)


def _list_work(objects: Objects, request: Request, route: Route, kind: Kind, most: int) -> WorkEstimate:
    query = request.query
    limit, version = first(query, "limit"), first(query, "resourceVersion")
    match, fields = first(query, "resourceVersionMatch"), first(query, "fieldSelector")
    if limit and not (limit.isdigit() and len(limit) < _DIGITS):
        # The limit is invalid, and the request will be rejected.
        return WorkEstimate(min(most or MOST_LIST_SEATS, MOST_LIST_SEATS))
    exact = match == "Exact" or (not match and bool(int(limit or 0)) and version not in ("", "0"))
    listing = ListRequest(
        int(limit or 0),
        single=bool(route.name) or any(term.startswith(_BY_NAME) for term in fields.split(",")),
        from_storage=route.verb == "list" and (exact or (not match and "continue" in query)),
        selective=bool(fields or first(query, "labelSelector")),
    )
    some = objects.store.scan(kind.storage_prefix, limit=3)
    average = sum(len(record.value) for record in some) // len(some) if some else 0
    return list_work(objects.store.count(kind.storage_prefix), average, listing, most)


def _sends_state(request: Request) -> bool:
    """Whether a watch starts with the current state."""
    wanted = first(request.query, "sendInitialEvents").lower()
    return wanted in ("true", "1") or first(request.query, "resourceVersion") in ("", "0")
