"""Checkpoints of many autoscalers at once, from the fleet's arrays; the objects equal those of `checkpoints_of`.

As for estimates, the rows of one container of one autoscaler form a group, which is merged into one line. Then the
peaks of open windows are subtracted, and each line is serialized.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from podfit.api.objects import Object
from podfit.vpa.model.times import Seconds, to_rfc3339
from podfit.vpa.recommender.decide.checkpoint import MAX_WEIGHT, VERSION
from podfit.vpa.recommender.decide.fleet.arena import Ints, occurrence
from podfit.vpa.recommender.decide.fleet.bulk import Groups
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.merging import DenseHistograms, merged
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate, RowContainer
from podfit.vpa.recommender.decide.histograms.aggregate import MEMORY_PEAK_WEIGHT
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa


def statuses_of(cluster: ClusterState, vpas: Sequence[Vpa], now: Seconds) -> list[dict[str, Object]]:
    """The checkpoint statuses of each autoscaler's containers, sorted by name."""
    fleet = cluster.fleet
    assert fleet is not None
    members = [_rows_by_container(vpa) for vpa in vpas]
    groups = Groups.of([rows for containers in members for rows in containers.values()], ())
    if not len(groups.rows):
        return [{} for _ in vpas]
    sizes = np.diff(groups.starts)
    cpu = merged(fleet.cpu, groups.rows, groups.starts[:-1], sizes)
    memory = merged(fleet.memory, groups.rows, groups.starts[:-1], sizes)
    lines, handles = _live(cluster, vpas, members)
    _without_open_windows(memory, fleet, lines, handles, now)
    written = _written(fleet, groups, cpu, memory, now)
    return [{name: written.pop() for name in containers} for containers in members]


def _rows_by_container(vpa: Vpa) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    named = [*((key.container, state) for key, state in vpa.aggregates.items()), *vpa.initial.items()]
    for name, state in named:
        if isinstance(state, RowAggregate):
            rows.setdefault(name, []).append(state.row)
    return dict(sorted(rows.items()))


def _live(cluster: ClusterState, vpas: Sequence[Vpa], members: Sequence[dict[str, Any]]) -> tuple[Ints, Ints]:
    """The handles of running containers, and the line that each belongs to."""
    lines: list[int] = []
    handles: list[int] = []
    at = 0
    for vpa, containers in zip(vpas, members, strict=True):
        line_of = {name: at + number for number, name in enumerate(containers)}
        at += len(containers)
        for id in vpa.pods:
            pod = cluster.pod(id)
            for name, state in pod.containers.items() if pod is not None else ():
                if name in line_of and isinstance(state, RowContainer):
                    lines.append(line_of[name])
                    handles.append(state.handle)
    return np.array(lines, np.int64), np.array(handles, np.int64)


def _without_open_windows(dense: DenseHistograms, fleet: Fleet, lines: Ints, handles: Ints, now: Seconds) -> None:
    """Subtracts the peaks of open windows, which would be counted a second time after a restart."""
    ends = fleet.window_end[handles]
    chosen = now < ends
    lines, handles, ends = lines[chosen], handles[chosen], ends[chosen]
    peaks = np.maximum(fleet.memory_peak[handles], fleet.oom_peak[handles])
    buckets = fleet.memory_buckets(peaks)
    ordinal = occurrence(lines)
    for number in range(int(ordinal.max(initial=-1)) + 1):
        part = ordinal == number
        dense.subtract(lines[part], buckets[part], MEMORY_PEAK_WEIGHT, ends[part])


def _written(fleet: Fleet, groups: Groups, cpu: DenseHistograms, memory: DenseHistograms, now: Seconds) -> list[Object]:
    """The statuses of all lines, in reverse order, so that the caller can pop them."""
    starts = groups.starts[:-1]
    first = np.minimum.reduceat(fleet.first[groups.rows], starts).tolist()
    last = np.maximum.reduceat(fleet.last[groups.rows], starts).tolist()
    count = np.add.reduceat(fleet.count[groups.rows], starts).tolist()
    stamp = to_rfc3339(now)
    return [
        {
            "lastUpdateTime": stamp,
            "version": VERSION,
            "cpuHistogram": cpu_histogram,
            "memoryHistogram": memory_histogram,
            "firstSampleStart": to_rfc3339(begun) if begun != np.inf else None,
            "lastSampleStart": to_rfc3339(ended),
            **({"totalSamplesCount": samples} if samples else {}),
        }
        for cpu_histogram, memory_histogram, begun, ended, samples in zip(
            _histograms(cpu), _histograms(memory), first, last, count, strict=True
        )
    ][::-1]


def _histograms(dense: DenseHistograms) -> list[Object]:
    """The histograms of all lines, as `save_histogram` would write them."""
    counted = np.where(dense.inside(), dense.weights, 0.0)
    heaviest = counted.max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.floor(counted * (MAX_WEIGHT / heaviest)[:, None] + 0.5)
    whole[heaviest <= 0] = 0.0
    line, bucket = np.nonzero(whole)
    weights: list[dict[str, int]] = [{} for _ in heaviest]
    for row, name, weight in zip(line.tolist(), bucket.tolist(), whole[line, bucket].tolist(), strict=True):
        weights[row][str(name)] = int(weight)
    stamps = {reference: to_rfc3339(reference) for reference in set(dense.reference.tolist())}
    return [
        {
            "referenceTimestamp": stamps[reference],
            **({"bucketWeights": found} if found else {}),
            **({"totalWeight": total} if total else {}),
        }
        for found, total, reference in zip(weights, dense.total.tolist(), dense.reference.tolist(), strict=True)
    ]
