"""Flow control: every request of a client gets seats in a priority level before it is executed.

The cluster's flow schemas and priority levels select the level; both are reloaded when one of them changes. Requests of
components in this process are not limited. Requests are classified by the impersonated user, if any.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.flows import borrowing
from podfit.apiserver.flows.classify import RequestAttributes, Schema, first_match, schemas
from podfit.apiserver.flows.estimate import work_of
from podfit.apiserver.flows.level import CANCELLED, TIME_OUT, Level, Rejected, Ticket
from podfit.apiserver.flows.measures import FlowMeasures, ServedMeasures
from podfit.apiserver.flows.sharding import flow_hash
from podfit.apiserver.request import Request
from podfit.apiserver.routes import Route
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import usable
from podfit.apiserver.writing.options import timeout_of

SCHEMA, LEVEL = kind_named("FlowSchema"), kind_named("PriorityLevelConfiguration")
PERIOD_S = 10.0
"""The interval at which levels borrow from each other according to demand."""
WAIT_S = 15.0
"""How long a request may wait for its seats: a quarter of its timeout."""
_KEPT = 10_000


@dataclass(slots=True, eq=False)
class Classified:
    """The flow of a request: its schema, level and distinguisher."""

    schema: Schema
    level: Level
    flow: int
    headers: list[tuple[str, str]]
    measures: ServedMeasures


@dataclass(slots=True, eq=False)
class Admitted:
    place: Classified
    ticket: Ticket
    is_watch: bool


class TooMany(Exception):
    """The request is rejected; `headers` name its flow schema and priority level."""

    def __init__(self, headers: list[tuple[str, str]], retry_s: int) -> None:
        super().__init__()
        self.headers, self.retry_s = headers, retry_s


class FlowControl:
    def __init__(self, objects: Objects, total: int, measures: FlowMeasures) -> None:
        """`total` is the number of seats of the server, shared by all levels."""
        self._objects, self._total, self._measures = objects, total, measures
        self._clock = objects.clock
        self._levels: dict[str, Level] = {}
        self._schemas: list[Schema] = []
        self._places: dict[tuple[str, tuple[str, ...], str, str, str, str, str], Classified] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stale = False
        self.wait_s = WAIT_S

    @property
    def levels(self) -> dict[str, Level]:
        return self._levels

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def changed(self, event: WatchEvent) -> None:
        """Called by the hub for each change. Changes arrive in groups, and each group causes a single reload."""
        if not self._stale:
            self._stale = True
            asyncio.get_running_loop().call_soon(self.configure)

    async def resync(self) -> None:
        self.configure()

    def configure(self) -> None:
        """Reloads the flow schemas and priority levels. Deleted levels finish the requests that they hold."""
        self._stale = False
        rows = {row["metadata"]["name"]: row for row in usable(LEVEL, self._objects.list(LEVEL))}
        bounds = borrowing.bounds({name: row.get("spec") or {} for name, row in rows.items()}, self._total)
        self._levels = {name: self._levels.get(name) or Level(name) for name in rows}
        for name, level in self._levels.items():
            meta: Object = rows[name]["metadata"]
            level.configure(meta.get("uid") or "", rows[name].get("spec") or {}, bounds[name])
        self._schemas = [row for row in schemas(usable(SCHEMA, self._objects.list(SCHEMA))) if row.level in rows]
        self._places.clear()
        self._share()

    # --- requests -----------------------------------------------------------------------------------------------

    async def admit(self, request: Request, route: Route | None) -> Admitted | None:
        """Waits until the request may be executed. Returns None if nothing limits it. Raises TooMany."""
        place = self._place(request, route)
        if place is None:
            return None
        is_watch = route is not None and route.verb == "watch"
        level, schema = place.level, place.schema.name
        arrived = self._clock.monotonic()
        try:
            ticket = level.arrive(work_of(self._objects, request, route, level.most_seats), place.flow, arrived)
            if ticket.turn is not None:
                await self._wait(place, ticket, 0 if is_watch else timeout_of(request.query))
        except Rejected as rejected:
            self._measures.rejected(level.name, schema, rejected.reason, self._clock.monotonic() - arrived)
            raise TooMany(place.headers, level.retries.reject(int(arrived))) from None
        place.measures.started(ticket)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)
        return Admitted(place, ticket, is_watch)

    def finish(self, admitted: Admitted | None) -> None:
        if admitted is None:
            return
        place, ticket, now = admitted.place, admitted.ticket, self._clock.monotonic()
        place.level.finish(ticket, now)
        place.measures.ended(ticket, now, admitted.is_watch)
        if Level.final(ticket):
            asyncio.get_running_loop().call_later(ticket.work.extra_s, self._free, place.level, ticket)

    def _free(self, level: Level, ticket: Ticket) -> None:
        level.free(ticket, self._clock.monotonic())

    async def _wait(self, place: Classified, ticket: Ticket, timeout_s: float) -> None:
        """Waits for the seats. `timeout_s` is the client's timeout (0: none), a quarter of which is the longest
        wait."""
        level, turn = place.level, ticket.turn
        assert turn is not None
        seats = ticket.seats
        self._measures.queued(level.name, place.schema.name, 1, seats)
        try:
            await asyncio.wait_for(asyncio.shield(turn), min(timeout_s / 4 or self.wait_s, self.wait_s))
        except (TimeoutError, asyncio.CancelledError) as error:
            now = self._clock.monotonic()
            if not turn.done():
                turn.cancel()
                level.abandon(ticket, now)
            elif isinstance(error, TimeoutError):
                return  # The seats were granted at the moment of the timeout.
            else:
                level.finish(ticket, now)
                level.free(ticket, now)
            if isinstance(error, TimeoutError):
                raise Rejected(TIME_OUT) from None
            self._measures.rejected(level.name, place.schema.name, CANCELLED, now - ticket.arrived)
            raise
        finally:
            self._measures.queued(level.name, place.schema.name, -1, -seats)

    def _place(self, request: Request, route: Route | None) -> Classified | None:
        user = request.user
        if route is None or not route.resource:
            return self._find(RequestAttributes(user.name, user.groups, request.method.lower(), path=request.path))
        key = (user.name, user.groups, route.verb, route.group, route.resource, route.subresource, route.namespace)
        place = self._places.get(key)
        if place is None:
            place = self._find(RequestAttributes(*key))
            if place is None:
                return None
            if len(self._places) >= _KEPT:
                self._places.clear()
            self._places[key] = place
        return place

    def _find(self, attributes: RequestAttributes) -> Classified | None:
        schema = first_match(self._schemas, attributes)
        if schema is None:
            return None  # The mandatory objects are not stored yet.
        level = self._levels[schema.level]
        headers = [
            ("X-Kubernetes-Pf-Flowschema-Uid", schema.uid),
            ("X-Kubernetes-Pf-Prioritylevel-Uid", level.uid),
        ]
        measures = self._measures.served(level.name, schema.name, level.exempt)
        return Classified(schema, level, flow_hash(schema.name, schema.flow(attributes)), headers, measures)

    # --- borrowing ----------------------------------------------------------------------------------------------

    def _end_period(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for level in self._levels.values():
            level.end_period(now)
        self._share()
        if any(level.executing or level.waiting or level.demand.high for level in self._levels.values()):
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)

    def _share(self) -> None:
        now = self._clock.monotonic()
        bounds = {name: level.bounds for name, level in self._levels.items()}
        division = borrowing.divide(bounds, {name: level.demand for name, level in self._levels.items()})
        for name, level in self._levels.items():
            level.set_limit(division.limits[name], now)
            self._measures.level(level)
        self._measures.divided(division)
