"""Reports progress on stderr: of reading usage if stderr is a terminal, and of operations that take minutes in any
case."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

WIDTH = 28


class ProgressLine:
    def __init__(self, out: TextIO | None = None, shown: bool | None = None) -> None:
        self._out = out or sys.stderr
        self._shown = self._out.isatty() if shown is None else shown

    def announce(self, words: str) -> None:
        self._out.write(f"{words}\n")
        self._out.flush()

    @contextmanager
    def of(self, what: str) -> Iterator[Callable[[int, int, int], None]]:
        begun = time.monotonic()

        def seen(done: int, whole: int, samples: int) -> None:
            if self._shown:
                self._out.write(f"\r{line(what, done, whole, samples, time.monotonic() - begun)}\x1b[K")
                self._out.flush()

        try:
            yield seen
        finally:
            if self._shown:
                self._out.write("\r\x1b[K")
                self._out.flush()


def line(what: str, done: int, whole: int, samples: int, took_s: float) -> str:
    full = WIDTH * done // max(1, whole)
    left = took_s / max(1, done) * (whole - done)
    return (
        f"{what} [{'#' * full}{'-' * (WIDTH - full)}] {100 * done // max(1, whole)} %, part {done} of {whole}, "
        f"{samples:,} samples, about {int(left) // 60}:{int(left) % 60:02d} left"
    )
