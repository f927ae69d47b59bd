"""The queue of passes over pods: one task per pod, alive only while there is work, so that no pod waits behind a slow
one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks
from podfit.reconcile.result import Requeue, Result

log = logging.getLogger(__name__)

_SOON_S = 0.01
"""The delay of a requeue that is already due: it is never lost, and never a busy loop."""

Reconcile = Callable[[str], Awaitable[Result]]


class PassQueue:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reconcile: Reconcile | None = None
        self._busy: set[str] = set()
        self._dirty: set[str] = set()
        self._early: dict[str, None] = {}
        """Pods enqueued before `start`, in order."""
        self._timers: dict[str, tuple[float, asyncio.Task[None]]] = {}
        self._tasks = Tasks("pods")
        self._backoff = Backoff(0.05, 10.0, jitter=0.1)
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def start(self, reconcile: Reconcile) -> None:
        """Starts to reconcile enqueued pods, beginning with those enqueued before this call."""
        self._reconcile = reconcile
        early, self._early = self._early, {}
        for uid in early:
            self.enqueue(uid)

    def enqueue(self, uid: str) -> None:
        """Reconciles this pod now, or once more as soon as the current pass ends."""
        if self._closed:
            return
        if self._reconcile is None:
            self._early[uid] = None
            return
        self._cancel(uid)
        if uid in self._busy:
            self._dirty.add(uid)
            return
        self._busy.add(uid)
        self._idle.clear()
        self._tasks.start(self._run(uid, self._reconcile), f"pod-{uid}")

    def enqueue_after(self, uid: str, seconds: float) -> None:
        if seconds <= 0:
            self.enqueue(uid)
            return
        due = self._clock.monotonic() + seconds
        timer = self._timers.get(uid)
        if self._closed or (timer is not None and timer[0] <= due):
            return
        self._cancel(uid)
        self._timers[uid] = (due, self._tasks.start(self._later(uid, seconds), f"later-{uid}"))

    def on_observe(self, uid: str) -> None:
        """Called when the pass over this pod is about to observe it: the pass covers everything the pod was enqueued
        for until now."""
        self._dirty.discard(uid)

    async def idle(self) -> None:
        """Waits until no pod is being reconciled; timers do not count."""
        await self._idle.wait()

    def forget(self, uid: str) -> None:
        self._cancel(uid)
        self._backoff.forget(uid)

    async def stop(self) -> None:
        self._closed = True
        self._timers.clear()
        await self._tasks.stop()

    async def _run(self, uid: str, reconcile: Reconcile) -> None:
        try:
            while True:
                self._dirty.discard(uid)
                requeue_s = await self._once(uid, reconcile)
                if uid not in self._dirty:
                    break
        finally:
            self._busy.discard(uid)
            if not self._busy:
                self._idle.set()
        if requeue_s > 0:
            self.enqueue_after(uid, requeue_s)

    async def _once(self, uid: str, reconcile: Reconcile) -> float:
        """Runs one pass. Returns the seconds until the next pass, 0 for none."""
        try:
            result = await reconcile(uid)
        except ApiError as error:
            log.log(logging.INFO if error.code in (404, 409, 429) else logging.WARNING, "pod %s: %s", uid, error)
        except Unreachable as error:
            log.info("pod %s: %s", uid, error)
        except (RuntimeFailure, OSError) as error:
            log.warning("pod %s: %s", uid, error)
        except Exception:
            log.exception("pod %s: a pass failed", uid)
        else:
            self._backoff.forget(uid)
            return max(result.after_s, _SOON_S) if isinstance(result, Requeue) else 0.0
        return self._backoff.next(uid)

    async def _later(self, uid: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._timers.pop(uid, None)
        self.enqueue(uid)

    def _cancel(self, uid: str) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None and timer[1] is not asyncio.current_task():
            timer[1].cancel()
