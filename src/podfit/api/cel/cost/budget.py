"""Limits on the cost and the duration of evaluating expressions.

Kubernetes limits evaluations in units of cost. An interpreter in Python takes longer per unit than one in Go; therefore
a budget also limits time.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from podfit.api.cel.values import CostExceeded, Stopped

PER_CALL, PER_OBJECT, PER_CONDITIONS = 1_000_000, 10_000_000, 2_500_000
"""The limits for one evaluation, for all rules of one object, and for all match conditions of one webhook."""
_FIRST_STEP, _STEP = 100, 4_000
"""Units of cost between two time checks, initially and at most. This is about a millisecond at the usual speed; where
units take longer, as when comparing values with many parts, the interval becomes shorter."""
_SHORT_S, _LONG_S = 0.0005, 0.002


class YieldPolicy:
    """Decides how an evaluation shares the process with other work. This implementation never yields."""

    def step(self) -> None:
        """Called about every millisecond. It may wait, or raise to end the evaluation."""

    def heavy(self) -> None:
        """Called before work that takes long and cannot be interrupted."""


NEVER_YIELD = YieldPolicy()


class Interrupted(Stopped):
    """An evaluation took too long."""

    def __init__(self) -> None:
        super().__init__("operation interrupted")


class Budget:
    """The remaining budget of a series of evaluations."""

    def __init__(self, total: int = PER_OBJECT, per_call: int = PER_CALL, yielding: YieldPolicy = NEVER_YIELD) -> None:
        self.left = total
        self._per_call, self._yielding = per_call, yielding
        self._used = 0
        self._step, self._since = _FIRST_STEP, 0.0

    def frame(self, slots: int) -> list[Any]:
        """A frame for one evaluation, with `slots` entries."""
        self._step, self._since = _FIRST_STEP, perf_counter()
        return [0, min(_FIRST_STEP, self._per_call), self._pause] + [None] * (slots - 3)

    def _pause(self, frame: list[Any]) -> None:
        if frame[0] > self._per_call:
            raise CostExceeded
        took = perf_counter() - self._since
        if took < _SHORT_S:
            self._step = min(_STEP, self._step * 2)
        elif took > _LONG_S:
            self._step = max(1, self._step // 4)
        self._yielding.step()
        self._since = perf_counter()
        frame[1] = min(self._per_call, frame[0] + self._step)

    def settle(self, frame: list[Any]) -> None:
        """Charges the cost of an evaluation that has ended, successfully or not."""
        self.left -= frame[0]
        self._used += frame[0]

    def check(self, frame: list[Any]) -> None:
        """Raises CostExceeded if the evaluation has exceeded its limit. Called when it has a result."""
        if frame[0] > self._per_call:
            raise CostExceeded
        if self._used > _STEP:
            self._used = 0
            self._yielding.step()
