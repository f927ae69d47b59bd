"""Containers that keep ending: how long each has to wait before it is started again, and how that is told."""

from __future__ import annotations

from podfit.agent.decide.lifecycle import Seen
from podfit.agent.notices import WARNING, Notices
from podfit.agent.record import CrashBackoff, PodRecord
from podfit.kit.clock import Clock


class Crashes:
    def __init__(self, notices: Notices, clock: Clock) -> None:
        self._notices, self._clock = notices, clock

    def delay(self, record: PodRecord, one: Seen) -> float:
        """Seconds until this container may run again; 0 when it may at once."""
        if one.last is None or not one.exited:
            return 0.0
        backoff = record.backoff.setdefault(one.name, CrashBackoff())
        if backoff.counted != one.last.id:
            # The wall clock is asked once: it may jump while the container waits, in either direction.
            ago = max(0.0, self._clock.now() - one.last.finished_at)
            ran = one.last.finished_at - one.last.started_at if one.last.started_at else 0.0
            backoff.ended(one.last.id, ran, self._clock.monotonic() - ago)
        return max(0.0, backoff.wait_s - (self._clock.monotonic() - backoff.since))

    def back_off(self, record: PodRecord, name: str) -> None:
        if record.waiting.get(name, ("",))[0] != "CrashLoopBackOff":
            text = f"Back-off restarting failed container {name} in pod {record.who}"
            self._notices.say(record.pod, WARNING, "BackOff", text, name)
        minutes, rest = divmod(int(record.backoff[name].wait_s), 60)
        shown = f"{minutes}m{rest}s" if minutes else f"{rest}s"
        message = f"back-off {shown} restarting failed container={name} pod={record.who}"
        record.waiting[name] = ("CrashLoopBackOff", message)
