"""Adds whole scrapes to a recommender's cluster state, and computes recommendations for all of its autoscalers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.estimates import estimate_vpas
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowContainer
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, PodId, VpaId
from podfit.vpa.recommender.decide.status import Condition, Outcome, outcome


@dataclass(slots=True)
class Scrape:
    """Samples of many containers, collected and then added together."""

    handles: list[int] = field(default_factory=list)
    instants: list[Seconds] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    unknown: int = 0

    def add(self, cluster: ClusterState, pod_id: PodId, usage: Mapping[str, tuple[int, int]], instant: Seconds) -> None:
        """Adds the millicores and bytes of a pod's containers, by name; unknown pods and containers are only
        counted."""
        pod = cluster.pod(pod_id)
        known = pod.containers if pod is not None else {}
        for name, (cpu, memory) in usage.items():
            state = known.get(name)
            if not isinstance(state, RowContainer):
                self.unknown += 1
                continue
            self.handles.append(state.handle)
            self.instants.append(instant)
            self.cpu.append(cpu)
            self.memory.append(memory)

    def ingest(self, fleet: Fleet) -> tuple[int, int]:
        """Adds the samples to the cluster state; returns how many CPU and memory samples were accepted."""
        return (
            fleet.ingest_cpu(self.handles, self.instants, self.cpu),
            fleet.ingest_memory(self.handles, self.instants, self.memory),
        )


def recommend_all(
    cluster: ClusterState, now: str | None, extra: Mapping[VpaId, Iterable[Condition]] | None = None
) -> dict[VpaId, Outcome]:
    """The results for all autoscalers, computed together."""
    found = estimate_vpas(cluster, cluster.vpas.values())
    more = extra or {}
    return {id: outcome(vpa, found[id], cluster.config, now, more.get(id, ())) for id, vpa in cluster.vpas.items()}
