"""Back-off of containers that crash or cannot be started: computes the delay before the next start, and reports it."""

from __future__ import annotations

from collections.abc import Iterable

from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.pods.events import WARNING, Events
from podfit.agent.pods.record import CrashBackoff, PodRecord
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock

CRASH_LOOP = "CrashLoopBackOff"
_MOST_S = 15.0
"""A missing object may appear at any moment: the delay is capped at the kubelet's."""


class StartBackoff:
    def __init__(self, events: Events, clock: Clock) -> None:
        self._events, self._clock = events, clock
        self._failures = Backoff(1.0, _MOST_S)

    # --- containers that crash
    def delay(self, record: PodRecord, container: Seen) -> float:
        """The seconds until this container may be started again; 0 if it may start now."""
        if container.last is None or not container.exited:
            return 0.0
        backoff = record.backoff.setdefault(container.name, CrashBackoff())
        last = container.last
        if backoff.counted != last.id:
            # The wall clock is read once, because it may jump while the container waits.
            ago = max(0.0, self._clock.now() - last.finished_at)
            ran = last.finished_at - last.started_at if last.started_at else 0.0
            backoff.ended(last.id, ran, self._clock.monotonic() - ago)
        return max(0.0, backoff.wait_s - (self._clock.monotonic() - backoff.since))

    def report(self, record: PodRecord, name: str) -> None:
        """Reports the container as waiting with CrashLoopBackOff."""
        if record.waiting.reason(name) != CRASH_LOOP:
            text = f"Back-off restarting failed container {name} in pod {record.who}"
            self._events.emit(record.pod, WARNING, "BackOff", text, name)
        minutes, rest = divmod(int(record.backoff[name].wait_s), 60)
        pause = f"{minutes}m{rest}s" if minutes else f"{rest}s"
        message = f"back-off {pause} restarting failed container={name} pod={record.who}"
        record.waiting.set(name, CRASH_LOOP, message)

    # --- containers that cannot be started
    def held_s(self, record: PodRecord, name: str) -> float:
        """The seconds until the next attempt to start this container."""
        return max(0.0, record.held.get(name, 0.0) - self._clock.monotonic())

    def hold(self, record: PodRecord, name: str) -> float:
        """Blocks attempts for this many seconds, whatever triggers the next pass."""
        pause = self._failures.next((record.uid, name))
        record.held[name] = self._clock.monotonic() + pause
        return pause

    def started(self, record: PodRecord, name: str) -> None:
        self._failures.forget((record.uid, name))

    def retry_at_once(self, record: PodRecord, resized: Iterable[str]) -> None:
        """Ends the delay of waiting containers: the old size may have caused their failures."""
        record.held.clear()
        for name in resized:
            if (backoff := record.backoff.get(name)) is not None:
                backoff.reset()
