"""Stores parts of a run on disk, so that an interrupted run can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from podfit.vpa.history.base import Batch, Series
from podfit.vpa.history.kills import KillCounters
from podfit.vpa.recommender.decide.evidence.oom import Oom

Kills = KillCounters[tuple[str, str, str]]

OLDEST_S = 6 * 3600.0
"""An unfinished run that is older is started over."""


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "podfit" / "recommend"


@dataclass(frozen=True, slots=True)
class SavedReading:
    until: float
    step: float


class Saved:
    """One run: a folder named after a digest of the queries. A part that cannot be written is not stored, which is no
    error."""

    def __init__(self, folder: Path, questions: str, length: float) -> None:
        digest = hashlib.sha256(f"{questions}\0{length}".encode()).hexdigest()[:20]
        self._folder = folder / digest
        self.reused = 0

    def begin(self, until: float, step: float) -> SavedReading:
        """The period to read: that of the interrupted run, if there is one and it is recent enough."""
        file = self._folder / "reading.json"
        try:
            found = json.loads(file.read_text())
            if found["step"] == step and 0 <= until - found["until"] < OLDEST_S:
                return SavedReading(float(found["until"]), float(found["step"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass
        self.end()
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(json.dumps({"until": until, "step": step, "begun": time.time()}))
        except OSError:
            pass
        return SavedReading(until, step)

    def find(self, start: float, end: float) -> tuple[Batch, Kills] | None:
        """A part, and the counters of kills after it."""
        try:
            with np.load(self._file(start, end), allow_pickle=False) as data:
                series = [Series(row[0], row[1], row[2], "") for row in json.loads(str(data["series"]))]
                ooms = [Oom(*row) for row in json.loads(str(data["ooms"]))]
                batch = Batch(series, data["index"], data["times"], data["cpu"], data["memory"], ooms)
                counters, begins = json.loads(str(data["counters"]))
                kills = KillCounters({(one[0], one[1], one[2]): float(one[3]) for one in counters}, begins)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return None
        self.reused += 1
        return batch, kills

    def keep(self, start: float, end: float, batch: Batch, kills: Kills) -> None:
        file = self._file(start, end)
        begun = file.with_suffix(".tmp")
        try:
            with begun.open("wb") as out:
                np.savez_compressed(
                    out,
                    series=json.dumps([series[:3] for series in batch.series]),
                    ooms=json.dumps(
                        [(oom.namespace, oom.pod, oom.container, oom.instant, oom.memory) for oom in batch.ooms]
                    ),
                    counters=json.dumps([[[*who, value] for who, value in kills.last.items()], kills.begins]),
                    index=batch.index,
                    times=batch.times,
                    cpu=batch.cpu,
                    memory=batch.memory,
                )
            begun.replace(file)
        except OSError:
            begun.unlink(missing_ok=True)

    def end(self) -> None:
        """Deletes the stored parts, because the run is complete, or not worth resuming."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, start: float, end: float) -> Path:
        return self._folder / f"{start:.0f}-{end:.0f}.npz"
