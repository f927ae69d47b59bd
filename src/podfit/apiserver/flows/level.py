"""The requests of one priority level: the executing ones, and the fair queues of the waiting ones.

Seats are granted by start-time fair queuing: each queue has a virtual time, which advances by the work it dispatches,
and the queue with the lowest virtual time is next. A queue that was idle starts at the level's virtual time, so that
idling earns no credit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from podfit.api.objects import Object
from podfit.apiserver.flows.borrowing import Demand, LevelBounds
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
    """A request that is executing or waiting in a level."""

    work: WorkEstimate
    arrived: float
    seats: int
    """The maximum number of seats that the request holds at a time."""
    queue: Queue | None = None
    turn: asyncio.Future[None] | None = None
    """Set while the request waits for seats."""
    started: float = 0.0
    length: int = 0
    """The number of requests in its queue when it arrived, itself included."""


class Level:
    def __init__(self, name: str) -> None:
        self.name, self.uid = name, ""
        self.bounds = LevelBounds(0, 0, 0)
        self.limit = 0
        """The current limit: nominal seats, minus lent and plus borrowed ones."""
        self.demand = Demand()
        self.retries = Retries()
        self.most_seats = 0
        """The maximum number of seats of one request; 0: not limited."""
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
        self._queues_of: dict[int, list[Queue]] = {}
        """The queues assigned to a flow."""

    def configure(self, uid: str, spec: Object, level_bounds: LevelBounds) -> None:
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
        # If the number of queues is reduced, the removed ones get no more requests, but those in them are served.
        self._assigned_queues = count
        self._queues_of.clear()

    @property
    def queues(self) -> list[Queue]:
        return self._queues

    # --- coming and going ---------------------------------------------------------------------------------------

    def arrive(self, work: WorkEstimate, flow: int, now: float) -> Ticket:
        """Returns a ticket. If its `turn` is None the request may be executed immediately; otherwise it must wait for
        `turn`. Raises Rejected."""
        ticket = Ticket(work, now, work.most)
        if self.exempt or (not self.waiting and self._has_room(work)):
            if self._assigned_queues and not self.exempt:
                ticket.queue = self._choose(flow)
                ticket.length = 1
            self._start(ticket, now)
            return ticket
        if not self._assigned_queues:
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
        """Removes a waiting ticket from its queue."""
        assert ticket.queue is not None
        self._observe(now)
        ticket.queue.waiting.remove(ticket)
        ticket.queue.load -= ticket.seats
        self.waiting -= ticket.seats
        self._dispatch(now)

    def finish(self, ticket: Ticket, now: float) -> None:
        """Called when the response is ready. Final seats are held until `free`."""
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
        demand, length = self.executing + self.waiting, now - self._since
        self._area += demand * length
        self._squares += demand * demand * length
        self._since = now

    # --- seats --------------------------------------------------------------------------------------------------

    def _has_room(self, work: WorkEstimate) -> bool:
        """Whether the ticket may be executed. A request wider than the level waits until no other is executing."""
        if self._assigned_queues and self.executing >= self.limit:
            return False
        return self.executing + work.most <= self.limit or (work.most > self.limit and not self._running)

    def _choose(self, flow: int) -> Queue:
        hand = self._queues_of.get(flow)
        if hand is None:
            if len(self._queues_of) >= _HANDS:
                self._queues_of.clear()
            hand = self._queues_of[flow] = [
                self._queues[at] for at in deal(flow, self._assigned_queues, self._hand_size)
            ]
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
        """Reduces the final seats of a request to the limit of the level, which may have become smaller."""
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
