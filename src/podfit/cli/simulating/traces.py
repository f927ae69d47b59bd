"""The traces that a scenario names, as arrays. Errors name the field, in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from podfit.cli.backtesting.history import UNREADABLE, BadHistory, read_csv, read_npz, with_samples
from podfit.sim.load.curves import Trace
from podfit.sim.scenario.fields import BadScenario
from podfit.sim.scenario.model import TRACE, Scenario
from podfit.vpa.policies.base import CPU, MEMORY

FIVE_MINUTES_S = 300.0
_ABSENT = 255
"""How traces in whole percents mark a missing sample."""


def traces_of(scenario: Scenario, folder: Path) -> dict[tuple[str, str], Trace]:
    """Reads the traces, by file and resource. Files are relative to the scenario's folder."""
    found: dict[tuple[str, str], Trace] = {}
    read: dict[str, dict[str, Trace]] = {}
    for at, workload in enumerate(scenario.workloads):
        for resource, curve in ((CPU, workload.cpu_curve), (MEMORY, workload.memory_curve)):
            if curve.kind != TRACE:
                continue
            if curve.file not in read:
                read[curve.file] = _read(f"workloads[{at}].usage.{resource}.file", folder / curve.file, scenario.step_s)
            if resource in read[curve.file]:
                found[curve.file, resource] = read[curve.file][resource]
    return found


def _read(field: str, path: Path, step_s: float) -> dict[str, Trace]:
    try:
        if path.suffix == ".csv":
            history = read_csv(path, step_s)
        else:
            percents = _percents(path)
            if percents:
                return percents
            history = with_samples(read_npz(path), str(path))
    except OSError as error:
        raise BadScenario(f"{field}: {path}: {error.strerror or error}") from error
    except BadHistory as error:
        raise BadScenario(f"{field}: {error}") from error
    series = history.series
    return {name: Trace(np.asarray(usage.usage, np.float32), usage.step_s) for name, usage in series.items()}


def _percents(path: Path) -> dict[str, Trace]:
    """Reads traces of 5-minute samples in percent: `usage[series, day, sample, (cpu, memory)]`, or `cpu[series, day,
    sample]`. Samples become fractions of the curve's `scale`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if "step_s" in file.files:
                return {}
            found: dict[str, Any] = {name: file[name] for name in ("usage", "cpu") if name in file.files}
    except UNREADABLE:
        return {}
    usage, cpu = found.get("usage"), found.get("cpu")
    if usage is not None and usage.ndim == 4 and usage.shape[3] == 2:
        return {CPU: _parts(usage[..., 0]), MEMORY: _parts(usage[..., 1])}
    if cpu is not None and cpu.ndim == 3:
        return {CPU: _parts(cpu)}
    return {}


def _parts(percents: Any) -> Trace:
    values = percents.reshape(len(percents), -1)
    whole = np.issubdtype(values.dtype, np.integer)
    parts = np.where(values == _ABSENT, np.nan, values) if whole else values
    return Trace(np.asarray(parts, np.float32) / np.float32(100.0), FIVE_MINUTES_S)
