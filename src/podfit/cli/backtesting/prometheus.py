"""Reads a history from Prometheus like `podfit recommend`: throttled, in parts, and resumable. Needs no API server.

One series is one container of a workload: at each step the usage of the pod that used most, including deleted pods. A
pod's workload is taken from kube-state-metrics, otherwise from the pod's name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from podfit.cli.backtesting.history import MOST_CELLS, BadHistory, History, gaps
from podfit.cli.recommending.progress import ProgressLine
from podfit.kit.clock import Clock, RealClock
from podfit.vpa.history.base import Batch, HistoryUnavailable
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.policies.base import RESOURCES, UsageSeries
from podfit.vpa.report.cluster.owners import Owner, guessed, owner_by_name
from podfit.vpa.report.cluster.workloads import Key
from podfit.vpa.report.usage.curves import Grid, WorkloadCurves
from podfit.vpa.report.usage.prometheus import NoUsage, PlannedReading, PrometheusUsage
from podfit.vpa.report.usage.saved import Saved


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    config: PrometheusConfig
    namespace: str = ""
    step_s: float = 300.0
    share: float = 0.5
    """The fraction of the time in which queries may run."""
    cache: Path | None = None
    """The position at which an interrupted reading continues."""


async def read_prometheus(
    request: HistoryRequest, progress: ProgressLine, clock: Clock | None = None
) -> tuple[History, list[str]]:
    """The history, and notes about it for the user. Raises BadHistory."""
    clock = clock or RealClock()
    config = replace(request.config, history_resolution=request.step_s)
    questions = f"backtest {config.prometheus_address} {config.prometheus_cluster_label} {request.namespace}"
    questions += f" {config.prometheus_bearer_token_file}"
    saved = Saved(request.cache, questions, config.history_length) if request.cache is not None else None
    usage = PrometheusUsage(config, clock, share=request.share, saved=saved)
    try:
        plan = await usage.plan(clock.now(), request.namespace, "")
        reading = _Reading(plan, *await usage.owners(plan))
        with progress.of("reading usage from Prometheus") as seen:
            async for batch in usage.read(plan, seen):
                reading.take(batch)
    except (NoUsage, HistoryUnavailable) as error:
        raise BadHistory(str(error)) from error
    finally:
        await usage.close()
    if not reading.curves.known:
        raise BadHistory("; ".join(usage.remarks.missing) or f"Prometheus {config.prometheus_address} has no samples")
    return reading.history(usage.remarks.missing, clock.now()), [*usage.remarks.notes, *reading.notes()]


class _Reading:
    def __init__(
        self, plan: PlannedReading, pods: dict[tuple[str, str], Owner], above: dict[tuple[str, str, str], Owner]
    ) -> None:
        self._pods, self._above = pods, above
        self._step = plan.series_names.config.history_resolution
        self._grid = Grid(plan.start, self._step, round((plan.until - plan.start) / self._step) + 1)
        self.curves = WorkloadCurves(self._grid)
        self._keys: dict[tuple[str, str], Key] = {}
        self._kills = 0

    def take(self, batch: Batch) -> None:
        rows = [self.curves.row(self._key(series.namespace, series.pod), series.container) for series in batch.series]
        if len(self.curves.known) * self._grid.points > MOST_CELLS:
            raise BadHistory(
                f"more than {len(self.curves.known) - 1} containers over {self._grid.points} steps of {self._step:g} s "
                "are too many; take a longer --step, a shorter --history or one --namespace"
            )
        self.curves.take(batch, np.array(rows, np.int64))
        self._kills += len(batch.ooms)

    def _key(self, namespace: str, pod: str) -> Key:
        found = self._keys.get((namespace, pod))
        if found is None:
            owner = self._pods.get((namespace, pod)) or owner_by_name(pod)
            owner = self._above.get((namespace, *owner)) or guessed(owner)
            found = self._keys[namespace, pod] = Key(namespace, *owner)
        return found

    def history(self, missing: list[str], now: float) -> History:
        known = sorted(self.curves.known)
        found = [self.curves.curve(*row) for row in known]
        names = tuple(f"{key.namespace}/{key.kind}/{key.name}/{container}" for key, container in known)
        usage = {
            "cpu": np.stack([curve.cpu for curve in found if curve is not None]),
            "memory": np.stack([curve.memory for curve in found if curve is not None]),
        }
        series = {
            name: UsageSeries(usage[name], self._step, name) for name in RESOURCES if np.isfinite(usage[name]).any()
        }
        if not series:
            raise BadHistory("; ".join(missing) or "no sample that Prometheus has is a usable number")
        newest = self._grid.start + self._step * max(_last(values) for values in usage.values())
        old = [f"the newest sample in Prometheus is {(now - newest) / 3600:.1f} hours old"]
        stale = now - newest > max(3600.0, 3 * self._step)
        return History(names, series, (*missing, *(old if stale else ()), *gaps(series)))

    def notes(self) -> list[str]:
        if not self._kills:
            return []
        return [f"{self._kills} out-of-memory kills happened: what those containers needed then is not in the history"]


def _last(usage: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> int:
    """The last step with a sample."""
    return int(np.flatnonzero(np.isfinite(usage).any(0)).max(initial=0))
