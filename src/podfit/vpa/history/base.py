"""The interface of a history store, from which the recommender starts: usage and out-of-memory events.

To plug in another store, write a class with the methods of `History` and pass it to the recommender; nothing else
depends on the implementation. A read-only store, such as a monitoring system, implements `record` as a no-op. `load`
streams: it delivers batches in order of time and must hold only one of them, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.evidence.oom import Oom

NONE = -1
"""Represents a missing value in a batch. Real usage is never negative, and the model rejects negative values anyway."""


class HistoryUnavailable(Exception):
    """The history cannot be read now. A repeated call of `load` resumes where the last one stopped."""


class Series(NamedTuple):
    """One container of one pod, with the pod's labels as canonical text (`a=1,b=2`)."""

    namespace: str
    pod: str
    container: str
    labels: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples in order of time: `series[index[i]]` had this usage at `times[i]`."""

    series: Sequence[Series]
    index: NDArray[np.int64]
    times: NDArray[np.float64]
    cpu: NDArray[np.int64]
    """The CPU usage in millicores, or NONE."""
    memory: NDArray[np.int64]
    """The memory usage in bytes, or NONE."""
    ooms: Sequence[Oom] = field(default_factory=tuple)
    """Events that happened within the time of this batch."""


class Sink(Protocol):
    def take(self, batch: Batch) -> None: ...


class History(Protocol):
    writes_checkpoints: bool
    """Whether checkpoint objects are written as well."""
    keeps_samples: bool
    """Whether `record` does anything; False for a read-only store."""

    async def load(self, sink: Sink, until: Seconds) -> None:
        """Delivers all samples and events before `until`, oldest first. Raises HistoryUnavailable."""

    def record(self, batch: Batch) -> None:
        """Stores new samples and events. Must not block."""

    async def flush(self) -> None:
        """Writes recorded samples and events to the store."""

    async def close(self) -> None: ...


class NoHistory:
    """No history store: the history is in checkpoint objects only, which is upstream's default."""

    writes_checkpoints = True
    keeps_samples = False

    async def load(self, sink: Sink, until: Seconds) -> None:
        return

    def record(self, batch: Batch) -> None:
        return

    async def flush(self) -> None:
        return

    async def close(self) -> None:
        return
