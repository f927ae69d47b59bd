"""Collects evidence without Prometheus: from the checkpoints of autoscalers, or from metrics.k8s.io over some
minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import POD_METRICS, VPA, VPA_CHECKPOINT
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.kit.clock import Clock, parse_rfc3339
from podfit.vpa.history.base import NONE, Batch, Series
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.checkpoint import CheckpointError
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.aggregate import load_aggregate
from podfit.vpa.recommender.decide.histograms.estimate import estimate, minimums
from podfit.vpa.recommender.decide.histograms.histogram import mean
from podfit.vpa.report.cluster.owners import Owners
from podfit.vpa.report.cluster.reading import listed
from podfit.vpa.report.cluster.workloads import Key
from podfit.vpa.report.usage.curves import Grid
from podfit.vpa.report.usage.evidence import CHECKPOINTS, METRICS, Evidence, Known, Remarks
from podfit.vpa.report.usage.gathering import Gatherer

EVERY_S = 15.0
Seen = Callable[[int, int, int], None]


async def from_checkpoints(client: Client, namespace: str, config: Config, remarks: Remarks) -> Known:
    """Evidence from the checkpoints that autoscalers wrote, podfit's or Kubernetes'."""
    try:
        saved = await listed(client, VPA_CHECKPOINT, namespace)
        vpas = await listed(client, VPA, namespace)
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return {}
    targets = {
        (vpa["metadata"]["namespace"], vpa["metadata"]["name"]): ((vpa.get("spec") or {}).get("targetRef") or {})
        for vpa in vpas
    }
    siblings: dict[tuple[str, str], int] = {}
    for checkpoint in saved:
        at = _vpa_of(checkpoint)
        siblings[at] = siblings.get(at, 0) + 1
    found: Known = {}
    for checkpoint in saved:
        target = targets.get(_vpa_of(checkpoint))
        if not target:
            continue
        container = (checkpoint.get("spec") or {}).get("containerName") or ""
        key = Key(checkpoint["metadata"]["namespace"], target.get("kind") or "", target.get("name") or "")
        try:
            found[key, container] = _of_checkpoint(
                checkpoint.get("status") or {}, config, siblings[_vpa_of(checkpoint)]
            )
        except CheckpointError as error:
            remarks.missing.append(f"checkpoint {checkpoint['metadata']['name']} cannot be used: {error}")
    return found


def _vpa_of(checkpoint: Object) -> tuple[str, str]:
    return checkpoint["metadata"]["namespace"], (checkpoint.get("spec") or {}).get("vpaObjectName") or ""


def _of_checkpoint(status: Mapping[str, object], config: Config, siblings: int) -> Evidence:
    state = load_aggregate(status, config)
    size = estimate(state, config, minimums(config, max(1, siblings)))
    used, average = {}, {}
    if not state.cpu.empty:
        used["cpu"], average["cpu"] = round(state.cpu.percentile(0.95) * 1000), round(mean(state.cpu) * 1000)
    if not state.memory.empty:
        used["memory"], average["memory"] = int(state.memory.percentile(1.0)), int(mean(state.memory))
    return Evidence(CHECKPOINTS, state.count, state.first, state.last, 0, size, used, average)


async def from_metrics(
    client: Client,
    namespace: str,
    owners: Owners,
    config: Config,
    length: Seconds,
    clock: Clock,
    seen: Seen,
    remarks: Remarks,
) -> Known:
    """Evidence from samples taken every few seconds for a while. It does not cover usage at other times of the day."""
    begun = clock.monotonic()
    rounds = int(length // EVERY_S)
    gatherer = Gatherer(owners, config, Grid(clock.now() - 120.0, EVERY_S, rounds + 16))
    samples = 0
    for number in range(rounds + 1):
        try:
            batch = _batch(await listed(client, POD_METRICS, namespace), clock.now())
        except ApiError as error:
            if error.code not in (403, 404, 503):
                raise
            words = "is not served" if error.code == 404 else f"cannot be read: {error}"
            remarks.missing.append(f"metrics.k8s.io {words}")
            return gatherer.known(METRICS)
        gatherer.take(batch)
        samples += len(batch.times)
        seen(number + 1, rounds + 1, samples)
        left = begun + (number + 1) * EVERY_S - clock.monotonic()
        if number < rounds and left > 0:
            await clock.sleep(left)
    return gatherer.known(METRICS)


def _batch(items: list[Object], now: Seconds) -> Batch:
    series, cpu, memory, times = [], [], [], []
    for item in items:
        meta = item.get("metadata") or {}
        at = min(now, parse_rfc3339(item["timestamp"])) if item.get("timestamp") else now
        for container in item.get("containers") or ():
            usage = container.get("usage") or {}
            series.append(Series(meta.get("namespace") or "", meta.get("name") or "", container.get("name") or "", ""))
            cpu.append(Quantity.parse(usage["cpu"]).milli if "cpu" in usage else NONE)
            memory.append(Quantity.parse(usage["memory"]).value if "memory" in usage else NONE)
            times.append(at)
    order = np.argsort(np.array(times, np.float64), kind="stable")
    return Batch(
        series,
        order.astype(np.int64),
        np.array(times, np.float64)[order],
        np.array(cpu, np.int64)[order],
        np.array(memory, np.int64)[order],
    )
