"""What a store of the past promises, so that the recommender can start from it. Usage and out-of-memory events alike.

To plug in another store, write a class with the methods of `History` and hand it to the recommender; nothing else knows
which one it is. A store that only reads (a monitoring system) leaves `record` empty. `load` streams: it hands over
batches in order of time and must not hold more than one of them, so that memory stays bounded whatever the past holds.
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
"""In a batch: no value of this resource. (Negative use does not exist; the model refuses it anyway.)"""


class HistoryAway(Exception):
    """The past cannot be read now. Calling `load` again goes on where it stopped."""


class Series(NamedTuple):
    """One container of one pod, with the labels its pod had in canonical text (`a=1,b=2`)."""

    namespace: str
    pod: str
    container: str
    labels: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples in order of time: `series[index[i]]` used so much at `times[i]`."""

    series: Sequence[Series]
    index: NDArray[np.int64]
    times: NDArray[np.float64]
    cpu: NDArray[np.int64]
    """Millicores, or NONE."""
    memory: NDArray[np.int64]
    """Bytes, or NONE."""
    ooms: Sequence[Oom] = field(default_factory=tuple)
    """Events that happened within the time of this batch."""


class Sink(Protocol):
    def take(self, batch: Batch) -> None: ...


class History(Protocol):
    writes_checkpoints: bool
    """Whether checkpoint objects are kept besides."""
    keeps_samples: bool
    """Whether `record` does anything; a store that only reads says no."""

    async def load(self, sink: Sink, until: Seconds) -> None:
        """Hands over everything before `until`, oldest first. Raises HistoryAway."""

    def record(self, batch: Batch) -> None:
        """New samples and events, to be kept. Must not block."""

    async def flush(self) -> None:
        """Writes what was recorded."""

    async def close(self) -> None: ...


class NoHistory:
    """The past stands in checkpoint objects only, as is upstream's default."""

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
