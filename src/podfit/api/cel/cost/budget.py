"""How much evaluating expressions may cost, and for how long it may go on.

Kubernetes' limits are in units of cost. They end everything, but an interpreter in Python takes longer for a unit than
one in Go; so a budget also has a pace.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from podfit.api.cel.values import CostExceeded, Stopped

PER_CALL, PER_OBJECT, PER_CONDITIONS = 1_000_000, 10_000_000, 2_500_000
"""One evaluation; all rules for one object; all match conditions of one webhook."""
_FIRST_STEP, _STEP = 100, 4_000
"""Units of cost between two calls of the pace, at first and at most. That is about a millisecond where a unit takes as
long as most do; where they take longer, as comparing values with many parts does, steps become shorter."""
_SHORT_S, _LONG_S = 0.0005, 0.002


class Pace:
    """How an evaluation gets along with what else its process does. This one pays no attention."""

    def step(self) -> None:
        """About a millisecond has passed. It may wait, or raise to end the evaluation."""

    def heavy(self) -> None:
        """A piece of work follows that takes long and cannot be interrupted."""


UNPACED = Pace()


class Interrupted(Stopped):
    """An evaluation went on for too long."""

    def __init__(self) -> None:
        super().__init__("operation interrupted")


class Budget:
    """What is left for a series of evaluations."""

    def __init__(self, total: int = PER_OBJECT, per_call: int = PER_CALL, pace: Pace = UNPACED) -> None:
        self.left = total
        self._per_call, self._pace = per_call, pace
        self._used = 0
        self._step, self._since = _FIRST_STEP, 0.0

    def frame(self, slots: int) -> list[Any]:
        """For one evaluation."""
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
        self._pace.step()
        self._since = perf_counter()
        frame[1] = min(self._per_call, frame[0] + self._step)

    def settle(self, frame: list[Any]) -> None:
        """Pays for an evaluation that has come to its end, whichever."""
        self.left -= frame[0]
        self._used += frame[0]

    def check(self, frame: list[Any]) -> None:
        """To be called when an evaluation has a result."""
        if frame[0] > self._per_call:
            raise CostExceeded
        if self._used > _STEP:
            self._used = 0
            self._pace.step()
