"""One worker a pod, alive only while there is something to do: no queue behind a slow pod, no task for an idle one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from podfit.agent.runtimes.base import RuntimeFailure
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock
from podfit.kit.tasks import Tasks
from podfit.reconcile.result import Again, Result

log = logging.getLogger(__name__)

_SOON_S = 0.01
"""A look that is due already comes after this: never lost, and never a loop without a pause."""


class Workers:
    def __init__(self, work: Callable[[str], Awaitable[Result]], clock: Clock) -> None:
        self._work, self._clock = work, clock
        self._busy: set[str] = set()
        self._dirty: set[str] = set()
        self._timers: dict[str, tuple[float, asyncio.Task[None]]] = {}
        self._tasks = Tasks("pods")
        self._backoff = Backoff(0.05, 10.0, jitter=0.1)
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def kick(self, uid: str) -> None:
        """Look at this pod now, or again as soon as the present look ends."""
        if self._closed:
            return
        self._cancel(uid)
        if uid in self._busy:
            self._dirty.add(uid)
            return
        self._busy.add(uid)
        self._idle.clear()
        self._tasks.start(self._run(uid), f"pod-{uid}")

    def kick_after(self, uid: str, seconds: float) -> None:
        if seconds <= 0:
            self.kick(uid)
            return
        due = self._clock.monotonic() + seconds
        timer = self._timers.get(uid)
        if self._closed or (timer is not None and timer[0] <= due):
            return
        self._cancel(uid)
        self._timers[uid] = (due, self._tasks.start(self._later(uid, seconds), f"later-{uid}"))

    def looking(self, uid: str) -> None:
        """The pass over this pod is about to look: whatever it was kicked for until now, it will see."""
        self._dirty.discard(uid)

    async def idle(self) -> None:
        """Waits until no pod is being worked on; timers do not count."""
        await self._idle.wait()

    def forget(self, uid: str) -> None:
        self._cancel(uid)
        self._backoff.forget(uid)

    async def stop(self) -> None:
        self._closed = True
        self._timers.clear()
        await self._tasks.stop()

    async def _run(self, uid: str) -> None:
        try:
            while True:
                self._dirty.discard(uid)
                again = await self._once(uid)
                if uid not in self._dirty:
                    break
        finally:
            self._busy.discard(uid)
            if not self._busy:
                self._idle.set()
        if again > 0:
            self.kick_after(uid, again)

    async def _once(self, uid: str) -> float:
        try:
            result = await self._work(uid)
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
            return max(result.after_s, _SOON_S) if isinstance(result, Again) else 0.0
        return self._backoff.next(uid)

    async def _later(self, uid: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._timers.pop(uid, None)
        self.kick(uid)

    def _cancel(self, uid: str) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None and timer[1] is not asyncio.current_task():
            timer[1].cancel()
