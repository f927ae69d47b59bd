"""Ends a process at one of its writes: what it would write afterwards is not written."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


class Killed(Exception):
    """The process is dead from here on: it writes nothing more."""


class Saboteur:
    """Counts writes, and kills at one of them, before it or after it."""

    def __init__(self) -> None:
        self.at, self.after, self.dead, self.count = -1, False, False, 0

    def arm(self, at: int, after: bool) -> None:
        self.at, self.after, self.dead, self.count = at, after, False, 0

    def disarm(self) -> None:
        self.arm(-2, False)

    def wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any, **named: Any) -> Any:
            self._before()
            result = real(*arguments, **named)
            self._after()
            return result

        async def write_async(*arguments: Any, **named: Any) -> Any:
            self._before()
            result = await real(*arguments, **named)
            self._after()
            return result

        return write_async if inspect.iscoroutinefunction(real) else write

    def watch(self, owner: Any, *names: str) -> None:
        """Writes of one object."""
        for name in names:
            setattr(owner, name, self.wrapped(getattr(owner, name)))

    def _before(self) -> None:
        if self.dead or (self.count == self.at and not self.after):
            self.dead = True
            raise Killed

    def _after(self) -> None:
        self.count += 1
        if self.count == self.at + 1 and self.after:
            self.dead = True
            raise Killed
