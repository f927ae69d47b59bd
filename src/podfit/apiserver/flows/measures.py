"""The metrics of flow control, under kube-apiserver's names."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from podfit.apiserver.flows.borrowing import Division
from podfit.apiserver.flows.level import CANCELLED, CONCURRENCY_LIMIT, QUEUE_FULL, TIME_OUT, Level, Ticket
from podfit.kit.series import Counter, Gauge, Histogram

_PREFIX = "apiserver_flowcontrol_"
_LEVEL = ("priority_level",)
_FLOW = ("priority_level", "flow_schema")
_WAITS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_RUNS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_SEATS = (1, 2, 4, 8, 16, 32, 64, 100)
_LENGTHS = (0, 10, 25, 50, 100, 250, 500, 1000)
_WATCHES = (0, 1, 10, 100, 1000, 10_000)


@dataclass(frozen=True, slots=True)
class ServedMeasures:
    """The series of one schema, looked up once: they are updated for every request."""

    dispatched: Counter
    executing: Gauge
    seats: Gauge
    waited: Histogram | None
    """The series for waiting; None for exempt requests, which never wait."""
    estimated: Histogram
    length: Histogram
    watches: Histogram
    ran: Histogram
    ran_watches: Histogram

    def started(self, ticket: Ticket) -> None:
        self.dispatched.inc()
        self.executing.inc()
        self.seats.inc(ticket.seats)
        if self.waited is not None:
            self.waited.observe(ticket.started - ticket.arrived)
        self.estimated.observe(ticket.seats)
        if ticket.length:
            self.length.observe(ticket.length)
        if (watches := ticket.work.watches) is not None:
            self.watches.observe(watches)

    def ended(self, ticket: Ticket, now: float, is_watch: bool) -> None:
        self.executing.dec()
        self.seats.dec(ticket.seats)
        (self.ran_watches if is_watch else self.ran).observe(now - ticket.started)


class FlowMeasures:
    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, labels: tuple[str, ...] = _LEVEL) -> Gauge:
            return Gauge(_PREFIX + name, text, labels, registry=registry)

        reasons = (QUEUE_FULL, TIME_OUT, CONCURRENCY_LIMIT, CANCELLED)
        self._rejected = Counter(
            _PREFIX + "rejected_requests", "Requests rejected.", (*_FLOW, "reason"), registry=registry
        ).may_have(reason=reasons)
        self._dispatched = Counter(
            _PREFIX + "dispatched_requests", "Requests that began to be executed.", _FLOW, registry=registry
        )
        self._waiting = gauge("current_inqueue_requests", "Requests that wait in a queue.", _FLOW)
        self._waiting_seats = gauge("current_inqueue_seats", "Seats that requests in a queue ask for.", _FLOW)
        self._executing = gauge("current_executing_requests", "Requests that are executed.", _FLOW)
        self._seats = gauge("current_executing_seats", "Seats that requests take.", _FLOW)
        self._waited = Histogram(
            _PREFIX + "request_wait_duration_seconds",
            "Time that requests waited in a queue.",
            (*_FLOW, "execute"),
            buckets=_WAITS,
            registry=registry,
        ).may_have(execute=("true", "false"))
        self._ran = Histogram(
            _PREFIX + "request_execution_seconds",
            "Time that requests were executed.",
            (*_FLOW, "type"),
            buckets=_RUNS,
            registry=registry,
        ).may_have(type=("regular", "watch"))
        self._estimated = Histogram(
            _PREFIX + "work_estimated_seats",
            "Seats that requests were estimated to take.",
            _FLOW,
            buckets=_SEATS,
            registry=registry,
        )
        self._length = Histogram(
            _PREFIX + "request_queue_length_after_enqueue",
            "Length of the queue that a request was added to.",
            _FLOW,
            buckets=_LENGTHS,
            registry=registry,
        )
        self._watches = Histogram(
            _PREFIX + "watch_count_samples",
            "Watches that may get the change that a request makes.",
            _FLOW,
            buckets=_WATCHES,
            registry=registry,
        )
        self._nominal = gauge("nominal_limit_seats", "Seats of a level by its shares.")
        self._lower = gauge("lower_limit_seats", "Seats of a level when it lends all it can.")
        self._upper = gauge("upper_limit_seats", "Seats of a level when it borrows all it can.")
        self._current = gauge("current_limit_seats", "Seats of a level in force.")
        self._high = gauge("demand_seats_high_watermark", "The most seats asked for in the last period.")
        self._average = gauge("demand_seats_average", "Seats asked for in the last period, on average.")
        self._deviation = gauge("demand_seats_stdev", "Standard deviation of the seats asked for in the last period.")
        self._smoothed = gauge("demand_seats_smoothed", "Seats asked for, smoothed over periods.")
        self._target = gauge("target_seats", "Seats that a level would use.")
        self._fair = gauge("seat_fair_frac", "The multiple of their targets that levels get.", ())

    def rejected(self, level: str, schema: str, reason: str, waited_s: float) -> None:
        self._rejected.labels(level, schema, reason).inc()
        if waited_s:
            self._waited.labels(level, schema, "false").observe(waited_s)

    def queued(self, level: str, schema: str, requests: int, seats: int) -> None:
        self._waiting.labels(level, schema).inc(requests)
        self._waiting_seats.labels(level, schema).inc(seats)

    def served(self, level: str, schema: str, exempt: bool) -> ServedMeasures:
        """The metrics of a schema that every request updates."""
        return ServedMeasures(
            self._dispatched.labels(level, schema),
            self._executing.labels(level, schema),
            self._seats.labels(level, schema),
            None if exempt else self._waited.labels(level, schema, "true"),
            self._estimated.labels(level, schema),
            self._length.labels(level, schema),
            self._watches.labels(level, schema),
            self._ran.labels(level, schema, "regular"),
            self._ran.labels(level, schema, "watch"),
        )

    def divided(self, division: Division) -> None:
        self._fair.set(division.fair)
        for name, target in division.targets.items():
            self._target.labels(name).set(target)

    def level(self, level: Level) -> None:
        """Updates the metrics of a level after a change of its limits or demand."""
        name, bounds, demand = level.name, level.bounds, level.demand
        self._nominal.labels(name).set(bounds.nominal)
        self._lower.labels(name).set(bounds.least)
        self._upper.labels(name).set(bounds.most)
        self._current.labels(name).set(level.limit)
        self._high.labels(name).set(demand.high)
        self._average.labels(name).set(demand.average)
        self._deviation.labels(name).set(demand.deviation)
        self._smoothed.labels(name).set(demand.smoothed)
