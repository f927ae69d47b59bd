"""Tunes the cyclic garbage collector: it runs rarely, and only on new objects.

JSON has no cycles, and there is a lot of JSON: collecting a million objects takes some tenths of a second, blocks
everything else and finds nothing. Therefore objects that survive a collection are frozen (gc.freeze). They are unfrozen
for a full collection when CPython requests one and there is a reason. Leaked cycles show as growth: without growth
there is nothing to find, so a large fleet at rest is never paused. The reason is that several times as many objects are
alive as after the last full collection, or that an hour has passed and considerably more are alive.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

_FROM, _LATER = 100_000, 1
"""New objects before a collection, and collections before CPython requests an older generation (which is empty unless
it was unfrozen). The default of 700 is reached several times per request, and 20,000 whenever a few dozen requests are
in flight."""
_GROWN = 4
_LEAK, _EVERY_S = 1.25, 3600.0
"""The growth and the interval that justify a full collection: garbage is at most a fifth of all objects."""


class GcFreezer:
    """A gc callback: unfreezes everything before a full collection that has a reason, and freezes the survivors after
    each collection."""

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
            self.set_baseline()
        # Freezing resets CPython's counters: it requests a full collection only if nothing is frozen.
        if not self._is_due():
            gc.freeze()

    def _is_due(self) -> bool:
        grown = self._kept() / max(self._then, 1)
        return grown >= _GROWN or (grown >= _LEAK and self._clock() - self._at >= _EVERY_S)

    def set_baseline(self) -> None:
        """Sets the current number of objects as the baseline for the next full collection."""
        self._at, self._then = self._clock(), self._kept()


_set_aside = GcFreezer()


def collect_rarely() -> None:
    gc.set_threshold(_FROM, _LATER, _LATER)
    if _set_aside not in gc.callbacks:
        gc.callbacks.append(_set_aside)


def freeze_existing_objects() -> None:
    """Collects once and then freezes modules, tables and other objects created at the start."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    _set_aside.set_baseline()
