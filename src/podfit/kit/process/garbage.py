"""How often the interpreter looks for cyclic garbage, and at what: rarely, and at what is new.

JSON has no cycles, and there is a lot of JSON: a look at it costs some tenths of a second for a million objects, stops
all else meanwhile and finds nothing. So what a look has found alive is set aside. Everything is looked at again when
CPython asks for it and there is a reason. Forgotten cycles show as growth: where there is none, nothing is to be found,
however long it lasts, and a large fleet that is at rest is never stopped. So several times as much has to be kept as
after the last time, or an hour has passed and considerably more is kept.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

_FROM, _LATER = 100_000, 1
"""Objects made before a look, and looks before CPython wants one that goes further back (where there is nothing, unless
it was brought back). The usual 700 is reached several times a request, and 20,000 whenever some dozens of requests are
under way."""
_GROWN = 4
_LEAK, _EVERY_S = 1.25, 3600.0
"""What is forgotten for ever is a fifth of what is kept, at the most."""


class SetAside:
    """A callback of the collector: brings everything back before a full look that has a reason, and sets aside what
    is left after each look."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, kept: Callable[[], int] = sys.getallocatedblocks):
        self._clock, self._kept = clock, kept
        self._at, self._then = clock(), kept()
        self._whole = False

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._whole = info["generation"] == 2 and self._is_due()
            if self._whole:
                gc.unfreeze()
            return
        if self._whole:
            self.looked()
        # Setting aside restarts CPython's counting: it asks for a full look only where it is left alone.
        if not self._is_due():
            gc.freeze()

    def _is_due(self) -> bool:
        grown = self._kept() / max(self._then, 1)
        return grown >= _GROWN or (grown >= _LEAK and self._clock() - self._at >= _EVERY_S)

    def looked(self) -> None:
        """What is here now is what the next full look is measured by."""
        self._at, self._then = self._clock(), self._kept()


_set_aside = SetAside()


def look_rarely() -> None:
    gc.set_threshold(_FROM, _LATER, _LATER)
    if _set_aside not in gc.callbacks:
        gc.callbacks.append(_set_aside)


def keep_what_is_here() -> None:
    """Modules, tables and whatever else was made at the start: looked at once, and then like all that is set aside."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    _set_aside.looked()
