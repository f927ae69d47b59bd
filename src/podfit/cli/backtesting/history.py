"""Usage histories as arrays, read from npz and CSV files. Invalid input is rejected with one line that names the
cause."""

from __future__ import annotations

import csv
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podfit.vpa.policies.base import RESOURCES, Floats, UsageSeries

COLUMNS = ("time", "container", "cpu", "memory")
"""Columns of a CSV file; either of the last two may be missing, and `time` is Unix seconds or RFC 3339."""
DEFAULT_STEP_S = 300.0
ALL_DAYS = 3650.0
UNREADABLE = (ValueError, zipfile.BadZipFile, EOFError, KeyError, TypeError, AttributeError, zlib.error)
"""The exceptions of numpy for a file that is damaged, or is not an npz file."""
MOST_CELLS = 400_000_000
"""The most samples (containers times time steps) that are read."""
MOST_MISSING = 0.2
MOST_STEPS = 1_000_000
"""Nine years of five minutes: more indicates a wrong timestamp among the samples."""


class BadHistory(ValueError):
    """The history is unusable; the message says why."""


@dataclass(frozen=True, slots=True)
class History:
    names: tuple[str, ...]
    series: dict[str, UsageSeries]
    """By resource; the same containers in each."""
    missing: tuple[str, ...] = field(default=())
    """Missing parts, which make results partial."""


def read_npz(path: Path) -> History:
    try:
        with path.open("rb") as opened:
            if not opened.read(4).startswith(b"PK"):
                raise BadHistory(f"{path} is not an npz file")
        with np.load(path, allow_pickle=False) as file:
            found: dict[str, Any] = {name: file[name] for name in file.files}
    except UNREADABLE as error:
        if isinstance(error, BadHistory):
            raise
        cause = "it has pickled objects" if "pickle" in str(error) else f"it is damaged ({error})"
        raise BadHistory(f"{path} is not an npz file with plain arrays: {cause}") from error
    step_s = _step(path, found)
    series = {name: UsageSeries(_checked(path, name, found[name]), step_s, name) for name in RESOURCES if name in found}
    if not series:
        raise BadHistory(f"{path} has neither `cpu` nor `memory`: it has {', '.join(found) or 'nothing'}")
    shapes = {each.usage.shape for each in series.values()}
    if len(shapes) > 1:
        raise BadHistory(
            f"{path}: `cpu` has shape {series['cpu'].usage.shape}, `memory` {series['memory'].usage.shape}"
        )
    count = next(iter(shapes))[0]
    if np.ndim(found.get("names", ())) != 1:
        raise BadHistory(f"{path}: `names` is not a list of names")
    names = [str(name) for name in found["names"]] if "names" in found else [f"container-{at}" for at in range(count)]
    if len(names) != count:
        raise BadHistory(f"{path}: {len(names)} names for {count} containers")
    return History(tuple(names), series, gaps(series))


def with_samples(history: History, source: str) -> History:
    if not any(np.isfinite(series.usage).any() for series in history.series.values()):
        raise BadHistory(f"{source} has no samples")
    return history


def _step(path: Path, found: dict[str, Any]) -> float:
    if "step_s" not in found:
        raise BadHistory(f"{path} lacks `step_s`, the seconds between two samples")
    try:
        step_s = float(found["step_s"].item())
    except (TypeError, ValueError) as error:
        raise BadHistory(f"{path}: step_s is not a number") from error
    if not 0 < step_s <= 86400:
        raise BadHistory(f"{path}: step_s is {step_s:g}; it must be above 0 and at most a day")
    return step_s


def _checked(path: Path, name: str, values: Any) -> Floats:
    if values.ndim != 2:
        raise BadHistory(f"{path}: `{name}` has {values.ndim} dimensions, not two (container, sample)")
    if not (np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)):
        raise BadHistory(f"{path}: `{name}` has type {values.dtype}, not numbers")
    values = np.asarray(values, np.float32)
    for usage_error, words in ((values < 0, "negative"), (np.isinf(values), "infinite")):
        if usage_error.any():
            row, sample = (int(at) for at in np.argwhere(usage_error)[0])
            raise BadHistory(f"{path}: `{name}` of container {row} at sample {sample} is {words}")
    return np.asarray(values, np.float32)


def read_csv(path: Path, step_s: float = DEFAULT_STEP_S) -> History:
    """Reads a CSV file. Samples of the same step are merged: the mean of CPU, the maximum of memory."""
    try:
        # Spreadsheets begin a file with a byte order mark.
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            given = reader.fieldnames or []
            resources = [name for name in RESOURCES if name in given]
            if not resources or "time" not in given or "container" not in given:
                raise BadHistory(
                    f"{path}: wrong columns {', '.join(given) or '(none)'}: "
                    "`time`, `container`, and `cpu` (cores) or `memory` (bytes) are needed"
                )
            rows = list(_rows(path, reader, resources))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadHistory(f"{path} is not a CSV file: {error}") from error
    if not rows:
        raise BadHistory(f"{path} has no samples")
    return from_rows(rows, resources, step_s, str(path))


def _rows(path: Path, reader: Any, resources: list[str]) -> Iterator[tuple[float, str, tuple[float, ...]]]:
    for line, row in enumerate(reader, 2):
        try:
            values = tuple(_number(name, row[name]) for name in resources)
            at = _instant(row["time"] or "")
        except ValueError as error:
            raise BadHistory(f"{path}, line {line}: {error}") from error
        for name, value in zip(resources, values, strict=True):
            if value < 0 or value == float("inf"):
                raise BadHistory(f"{path}, line {line}: {name} is {value:g}")
        yield at, row["container"] or "", values


def _number(name: str, text: str | None) -> float:
    try:
        return float(text) if text else float("nan")
    except ValueError:
        raise ValueError(f"{name} is {text!r}, not a number") from None


def _instant(text: str) -> float:
    try:
        at = float(text)
    except ValueError:
        try:
            at = datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
        except ValueError:
            raise ValueError(f"time is {text!r}, neither Unix seconds nor RFC 3339") from None
    if not abs(at) < 1e12:
        unit = "; milliseconds?" if 1e12 <= abs(at) < 1e14 else ""
        raise ValueError(f"time is {text}, not Unix seconds{unit}")
    return at


def from_rows(
    rows: list[tuple[float, str, tuple[float, ...]]], resources: list[str], step_s: float, source: str
) -> History:
    """A history from rows of time, container and a value for each resource (NaN: none)."""
    instants = np.array([row[0] for row in rows])
    names = sorted({row[1] for row in rows})
    number = {name: at for at, name in enumerate(names)}
    row_of = np.array([number[row[1]] for row in rows])
    begin = np.floor(instants.min() / step_s) * step_s
    sample = ((instants - begin) // step_s).astype(np.int64)
    samples = int(sample.max()) + 1
    if samples > MOST_STEPS:
        raise BadHistory(
            f"{source}: the first and the last sample are {samples} steps of {step_s:g} s apart; is a time wrong?"
        )
    if samples * len(names) > MOST_CELLS:
        raise BadHistory(
            f"{source}: {len(names)} containers over {samples} steps of {step_s:g} s are too many; take a longer --step"
        )
    series = {}
    for at, resource in enumerate(resources):
        values = np.array([row[2][at] for row in rows])
        known = ~np.isnan(values)
        place, values = (row_of[known], sample[known]), values[known]
        if resource == "memory":
            out = np.full((len(names), samples), -np.inf)
            np.maximum.at(out, place, values)
            out[np.isinf(out)] = np.nan
        else:
            total, count = np.zeros((len(names), samples)), np.zeros((len(names), samples))
            np.add.at(total, place, values)
            np.add.at(count, place, 1)
            out = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        series[resource] = UsageSeries(out.astype(np.float32), step_s, resource)
    return with_samples(History(tuple(names), series, gaps(series)), source)


def gaps(series: dict[str, UsageSeries]) -> tuple[str, ...]:
    """Describes missing samples, in sentences."""
    found = []
    for resource, of_resource in series.items():
        absent = np.isnan(of_resource.usage)
        none = int(absent.all(1).sum()) if absent.size else 0
        if none:
            found.append(f"{none} of {len(absent)} containers have no {resource} sample")
        part = float(absent[~absent.all(1)].mean()) if none < len(absent) and absent.size else 0.0
        if part > 0.01:
            found.append(f"{'over 99%' if part > 0.99 else f'{part:.0%}'} of the {resource} samples are missing")
        elif holes := _with_holes(absent):
            found.append(
                f"of {holes} of {len(absent)} containers more than a fifth of the {resource} samples is missing"
            )
    return tuple(found)


def _with_holes(absent: NDArray[np.bool_]) -> int:
    """Containers that lack more than a fifth of the samples between their first and their last one."""
    count = 0
    for row in absent[absent.any(1) & ~absent.all(1)]:
        there = np.flatnonzero(~row)
        count += bool(1 - len(there) / (there[-1] - there[0] + 1) > MOST_MISSING)
    return count


async def read_local(path: Path, step_s: float = DEFAULT_STEP_S) -> History:
    """Reads the file in which the recommender of `podfit up` stores its samples."""
    from podfit.vpa.history.base import NONE, Batch, HistoryUnavailable
    from podfit.vpa.history.local import LocalHistory

    rows: list[tuple[float, str, tuple[float, ...]]] = []

    class Sink:
        def take(self, batch: Batch) -> None:
            names = [f"{series.namespace}/{series.pod}/{series.container}" for series in batch.series]
            for at, time, cpu, memory in zip(batch.index, batch.times, batch.cpu, batch.memory, strict=True):
                cores = float("nan") if cpu == NONE else float(cpu) / 1000.0
                rows.append((float(time), names[at], (cores, float("nan") if memory == NONE else float(memory))))

    if not path.is_file():
        raise BadHistory(f"{path} is not a file")
    with tempfile.TemporaryDirectory() as folder:
        # A copy: a recommender may be writing to the file, and opening the store deletes old samples.
        copy = Path(folder) / "history"
        store = LocalHistory(copy, days=ALL_DAYS)
        try:
            with closing(sqlite3.connect(f"file:{path.resolve()}?mode=ro", uri=True)) as given:
                with closing(sqlite3.connect(copy)) as taken:
                    given.backup(taken)
            await store.load(Sink(), float("inf"))
        except (HistoryUnavailable, sqlite3.Error) as error:
            raise BadHistory(f"{path}: {error}") from error
        finally:
            await store.close()
    if not rows:
        raise BadHistory(f"{path} has no samples")
    return from_rows(rows, list(RESOURCES), step_s, str(path))
