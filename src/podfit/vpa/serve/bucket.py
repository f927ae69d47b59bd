"""A token bucket, which limits the rate of actions: requests, evictions, changes of a whole cluster."""

from __future__ import annotations

from podfit.kit.clock import Clock


class Bucket:
    """Adds tokens at a rate per second, and holds at most `burst` of them. A rate of 0 or less is unlimited."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, max(1.0, burst), clock
        self._tokens, self._at = self._burst, clock.monotonic()

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now

    def take(self) -> bool:
        if self._rate <= 0:
            return True
        self._refill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def back(self) -> None:
        """Returns a token that was not needed."""
        self._tokens = min(self._burst, self._tokens + 1.0)

    async def wait(self, deadline: float) -> bool:
        """Takes a token, and waits for it if one becomes available before the deadline (monotonic). False if
        none does."""
        while not self.take():
            needed = (1.0 - self._tokens) / self._rate
            if self._clock.monotonic() + needed > deadline:
                return False
            await self._clock.sleep(needed)
        return True
