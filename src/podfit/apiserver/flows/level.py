"""The requests of one priority level: those being executed, and the fair queues of the waiting ones.

Seats are granted by start-time fair queuing: each queue has a virtual time, which advances by the work it dispatches,
and the queue with the lowest is next. A queue that was idle starts at the level's virtual time, so that idling earns no
credit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from podfit.api.objects import Object
from podfit.apiserver.flows.borrowing import Bounds, Demand
from podfit.apiserver.flows.estimate import WorkEstimate, most_seats
from podfit.apiserver.flows.retries import Retries
from podfit.apiserver.flows.sharding import deal

QUEUE_FULL, TIME_OUT, CONCURRENCY_LIMIT, CANCELLED = "queue-full", "time-out", "concurrency-limit", "cancelled"
_HANDS = 10_000
_GUESS_S = 0.003
"""The assumed duration of a request until it has ended."""


class Rejected(Exception):
    """The queue is full, or the request timed out in it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True, eq=False)
class Queue:
    waiting: deque[Ticket] = field(default_factory=deque)
    executing: int = 0
    load: int = 0
    """Seats of all its requests, including waiting ones."""
    virtual: float = 0.0


@dataclass(slots=True, eq=False)
class Ticket:
    """One request in a level."""

    work: WorkEstimate
    arrived: float
    seats: int
    """The most seats that it holds at a time."""
    queue: Queue | None = None
    turn: asyncio.Future[None] | None = None
    """Set while it waits for seats."""
    started: float = 0.0
    length: int = 0
    """The number of requests that waited in its queue when it arrived, itself included."""


class Level:
    def __init__(self, name: str) -> None:
        self.name, self.uid = name, ""
        self.bounds = Bounds(0, 0, 0)
        self.limit = 0
        """The current limit: its own seats, minus lent and plus borrowed ones."""
        self.demand = Demand()
        self.retries = Retries()
        self.most_seats = 0
        """That one request may take; 0: not limited."""
        self.exempt = False
        self.executing = 0
        """Seats in use."""
        self._running = 0
        """Requests that have not been answered."""
        self.waiting = 0
        """Seats requested by waiting requests."""
        self._queues: list[Queue] = []
        self._hand_size = self._length = 0
        self._virtual = 0.0
        self._since = self._area = self._squares = 0.0
        self._begun = 0.0
        self._high = 0
        self._hands: dict[int, list[Queue]] = {}
        """The queues assigned to a flow."""

    def configure(self, uid: str, spec: Object, level_bounds: Bounds) -> None:
        self.uid, self.bounds = uid, level_bounds
        self.exempt = level_bounds.exempt
        self.most_seats = most_seats(spec, level_bounds)
        response = (spec.get("limited") or {}).get("limitResponse") or {}
        queuing = (response.get("queuing") or {}) if response.get("type") == "Queue" else {}
        count = queuing.get("queues") or (64 if response.get("type") == "Queue" else 0)
        self._hand_size = queuing.get("handSize") or 8
        self._length = queuing.get("queueLengthLimit") or 50
        if count > len(self._queues):
            self._queues += [Queue() for _ in range(count - len(self._queues))]
        # Queues beyond a reduced number get no more requests; those already in them are still served.
        self._dealt = count
        self._hands.clear()

    @property
    def queues(self) -> list[Queue]:
        return self._queues

    # --- coming and going ---------------------------------------------------------------------------------------

    def arrive(self, work: WorkEstimate, flow: int, now: float) -> Ticket:
        """A ticket whose `turn` is None may be executed immediately; any other waits for it. Raises Rejected."""
        ticket = Ticket(work, now, work.most)
        if self.exempt or (not self.waiting and self._has_room(work)):
            if self._dealt and not self.exempt:
                ticket.queue = self._choose(flow)
                ticket.length = 1
            self._start(ticket, now)
            return ticket
        if not self._dealt:
            raise Rejected(CONCURRENCY_LIMIT)
        queue = self._choose(flow)
        if len(queue.waiting) >= self._length:
            raise Rejected(QUEUE_FULL)
        ticket.queue = queue
        ticket.turn = asyncio.get_running_loop().create_future()
        self._observe(now)
        if not queue.waiting and not queue.executing:
            queue.virtual = max(queue.virtual, self._virtual)
        queue.waiting.append(ticket)
        ticket.length = len(queue.waiting)
        queue.load += ticket.seats
        self.waiting += ticket.seats
        self._dispatch(now)
        return ticket

    def abandon(self, ticket: Ticket, now: float) -> None:
        """For a ticket that is still waiting."""
        assert ticket.queue is not None
        self._observe(now)
        ticket.queue.waiting.remove(ticket)
        ticket.queue.load -= ticket.seats
        self.waiting -= ticket.seats
        self._dispatch(now)

    def finish(self, ticket: Ticket, now: float) -> None:
        """Called with the response. Final seats are held until `free`."""
        self._account(ticket, now)
        self._running -= 1
        self._release(ticket, ticket.seats - self.final(ticket), now)

    def free(self, ticket: Ticket, now: float) -> None:
        self._release(ticket, self.final(ticket), now)

    @staticmethod
    def final(ticket: Ticket) -> int:
        return ticket.work.final_seats if ticket.work.extra_s > 0 else 0

    def set_limit(self, limit: int, now: float) -> None:
        self.limit = limit
        self._dispatch(now)

    # --- demand -------------------------------------------------------------------------------------------------

    def end_period(self, now: float) -> None:
        """Records the demand since the last call."""
        self._observe(now)
        length = now - self._begun
        if length > 0:
            average = self._area / length
            self.demand.observe(self._high, average, max(0.0, self._squares / length - average * average) ** 0.5)
        self._begun, self._area, self._squares = now, 0.0, 0.0
        self._high = self.executing + self.waiting

    def _observe(self, now: float) -> None:
        """Accumulates the demand up to now; called before each change of it."""
        asked, length = self.executing + self.waiting, now - self._since
        self._area += asked * length
        self._squares += asked * asked * length
        self._since = now

    # --- seats --------------------------------------------------------------------------------------------------

    def _has_room(self, work: WorkEstimate) -> bool:
        """A request wider than the level is executed when no other is; one that can wait needs a free seat."""
        if self._dealt and self.executing >= self.limit:
            return False
        return self.executing + work.most <= self.limit or (work.most > self.limit and not self._running)

    def _choose(self, flow: int) -> Queue:
        hand = self._hands.get(flow)
        if hand is None:
            if len(self._hands) >= _HANDS:
                self._hands.clear()
            hand = self._hands[flow] = [self._queues[at] for at in deal(flow, self._dealt, self._hand_size)]
        chosen = hand[0]
        if chosen.load:
            for queue in hand:
                if queue.load < chosen.load:
                    chosen = queue
        return chosen

    def _start(self, ticket: Ticket, now: float) -> None:
        self._observe(now)
        ticket.started = now
        self._running += 1
        self.executing += ticket.seats
        self._high = max(self._high, self.executing + self.waiting)
        queue = ticket.queue
        if queue is not None:
            if not queue.executing and not queue.waiting:
                queue.virtual = max(queue.virtual, self._virtual)
            self._virtual = max(self._virtual, queue.virtual)
            queue.executing += ticket.seats
            if ticket.turn is None:
                queue.load += ticket.seats
            queue.virtual += ticket.seats * _GUESS_S

    def _narrow(self, ticket: Ticket) -> None:
        """For a level that has become smaller than the final seats of a request."""
        work = ticket.work.within(self.limit)
        if work is not ticket.work and ticket.queue is not None:
            ticket.queue.load -= ticket.seats - work.most
            ticket.work, ticket.seats = work, work.most

    def _account(self, ticket: Ticket, now: float) -> None:
        """Replaces the estimate by the actual work of the request."""
        if ticket.queue is not None:
            took = now - ticket.started + ticket.work.extra_s
            ticket.queue.virtual += ticket.seats * (took - _GUESS_S)

    def _release(self, ticket: Ticket, seats: int, now: float) -> None:
        self._observe(now)
        self.executing -= seats
        if ticket.queue is not None:
            ticket.queue.executing -= seats
            ticket.queue.load -= seats
        if self.waiting:
            self._dispatch(now)

    def _dispatch(self, now: float) -> None:
        while self.waiting:
            queue = min((queue for queue in self._queues if queue.waiting), key=lambda queue: queue.virtual)
            ticket = queue.waiting[0]
            if not self._has_room(ticket.work):
                return
            queue.waiting.popleft()
            self._observe(now)
            self.waiting -= ticket.seats
            self._narrow(ticket)
            self._start(ticket, now)
            assert ticket.turn is not None
            if not ticket.turn.done():
                ticket.turn.set_result(None)
