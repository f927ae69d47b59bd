"""A sink that collects the samples of a history, for tests of history sources."""

from __future__ import annotations

from podfit.vpa.history.base import Batch, Series
from podfit.vpa.recommender.decide.evidence.oom import Oom


class Gathered:
    """Rows of (series, time, millicores, bytes), in the order received."""

    def __init__(self) -> None:
        self.rows: list[tuple[Series, float, int, int]] = []
        self.ooms: list[Oom] = []

    def take(self, batch: Batch) -> None:
        self.ooms += batch.ooms
        for index, at, cpu, memory in zip(batch.index, batch.times, batch.cpu, batch.memory, strict=True):
            self.rows.append((batch.series[index], float(at), int(cpu), int(memory)))
