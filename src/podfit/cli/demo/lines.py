"""The demo's output without a terminal: one line per event, and a status line from time to time."""

from __future__ import annotations

import time

from podfit.cli.demo.history import Moved
from podfit.cli.demo.stage import Stage
from podfit.cli.printing.amounts import RESOURCES, amount_text
from podfit.cli.printing.output import echo
from podfit.cli.printing.wording import size_text

EVERY_S = 10.0


class Lines:
    def __init__(self, stage: Stage, banner: list[str]) -> None:
        self._stage = stage
        self._printed_at = 0.0
        self._typed = 0
        for line in banner:
            echo(line)

    def __enter__(self) -> Lines:
        echo(f"podfit demo: kubeconfig {self._stage.kubeconfig}; Ctrl-C ends it")
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def moved(self, moves: list[Moved]) -> None:
        now = time.monotonic() - self._stage.started
        for line in self._stage.typed[self._typed :]:
            echo(f"{now:5.1f}s manual resize: {line}")
        self._typed = len(self._stage.typed)
        for move in moves:
            echo(f"{now:5.1f}s {move} (restarts {self._stage.seen.restarts})")
        if now - self._printed_at >= EVERY_S and self._stage.seen.containers:
            self._printed_at = now
            self._report(now)

    def _report(self, now: float) -> None:
        for (_, container), known in self._stage.seen.containers.items():
            used = ", ".join(
                f"{resource} {amount_text(resource, known.usage[resource][-1] if known.usage[resource] else None)}"
                for resource in RESOURCES
            )
            echo(f"{now:5.1f}s {container}: has {size_text(known.states.get('actual'))}, uses {used}")
