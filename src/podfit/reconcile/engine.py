"""Runs a reconcile function over a queue with a few workers; failures are retried with backoff."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from podfit.api.status import ApiError, is_namespace_going
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock
from podfit.kit.concurrency.tasks import Tasks
from podfit.reconcile.queue import Queue
from podfit.reconcile.result import Requeue, Result

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
_AWAY_S = 2.0


class Engine(Generic[K]):
    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]],
        *,
        workers: int = 4,
        clock: Clock | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self.queue: Queue[K] = Queue(clock or RealClock())
        self._reconcile = reconcile
        self._workers = workers
        self._backoff = backoff or Backoff(0.005, 30.0, jitter=0.1)

    def add(self, key: K) -> None:
        self.queue.add(key)

    async def run(self) -> None:
        """Runs until cancelled."""
        tasks = Tasks(self.name)
        try:
            workers = [tasks.start(self._work(), f"{self.name}-{number}") for number in range(self._workers)]
            for worker in workers:
                await worker
        finally:
            await tasks.stop()
            self.queue.close()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._once(key)
            finally:
                self.queue.done(key)

    async def _once(self, key: K) -> None:
        try:
            result = await self._reconcile(key)
        except ApiError as error:
            level = logging.DEBUG if _is_expected(error) else logging.WARNING
            log.log(level, "%s %s: %s", self.name, _text(key), error)
        except Unreachable as error:
            # Unrelated to this key. The delay is capped, so that all keys are retried soon after the server is back.
            log.info("%s %s: %s", self.name, _text(key), error)
            self.queue.add_after(key, min(self._backoff.next(key), _AWAY_S))
            return
        except Exception:
            log.exception("%s %s failed", self.name, _text(key))
        else:
            self._backoff.forget(key)
            if isinstance(result, Requeue):
                self.queue.add_after(key, result.after_s)
            return
        self.queue.add_after(key, self._backoff.next(key))


def _is_expected(error: ApiError) -> bool:
    """Whether the error is part of normal operation. A conflict means that our copy is stale: the watch will deliver
    the newer object. A terminating namespace accepts no new objects."""
    return error.code in (404, 409) or is_namespace_going(error)


def _text(key: object) -> str:
    """`default/web` for the key of a namespaced object."""
    return "/".join(str(part) for part in key if part) if isinstance(key, tuple) else str(key)
