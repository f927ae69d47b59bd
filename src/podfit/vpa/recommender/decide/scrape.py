"""Whole scrapes in, recommendations for all autoscalers out: what the recommender's loop calls on its cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from podfit.vpa.model.policy import RESOURCES, container_policy, controlled_resources, scaling_off
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.cluster import ClusterState, PodId, Vpa, VpaId
from podfit.vpa.recommender.decide.estimate import Estimate, estimate_all
from podfit.vpa.recommender.decide.fleet.bulk import Estimates, Groups, estimate_groups
from podfit.vpa.recommender.decide.fleet.fleet import Fleet
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate, RowContainer
from podfit.vpa.recommender.decide.status import Condition, Outcome, outcome


@dataclass(slots=True)
class Scrape:
    """Samples of many containers, collected before they go in together."""

    handles: list[int] = field(default_factory=list)
    instants: list[Seconds] = field(default_factory=list)
    cpu: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    unknown: int = 0

    def add(self, cluster: ClusterState, pod_id: PodId, usage: Mapping[str, tuple[int, int]], instant: Seconds) -> None:
        """The millicores and bytes of a pod's containers, by name; unknown pods and containers are only counted."""
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
        """How many CPU and memory samples were accepted."""
        return (
            fleet.ingest_cpu(self.handles, self.instants, self.cpu),
            fleet.ingest_memory(self.handles, self.instants, self.memory),
        )


def recommend_all(
    cluster: ClusterState, now: str | None, extra: Mapping[VpaId, Iterable[Condition]] | None = None
) -> dict[VpaId, Outcome]:
    """Every autoscaler's outcome, in one go."""
    found = estimate_vpas(cluster, cluster.vpas.values())
    more = extra or {}
    return {id: outcome(vpa, found[id], cluster.config, now, more.get(id, ())) for id, vpa in cluster.vpas.items()}


def estimate_vpas(cluster: ClusterState, vpas: Iterable[Vpa]) -> dict[VpaId, dict[str, Estimate]]:
    """Raw estimates by autoscaler and container; containers switched off, or without samples, are left out."""
    if cluster.fleet is None:
        return {vpa.id: estimate_all(cluster.for_recommendation(vpa), cluster.config) for vpa in vpas}
    members = [(vpa, _rows_by_container(vpa)) for vpa in vpas]
    groups = Groups.of(
        [rows for _, containers in members for rows in containers.values()],
        [len(containers) for _, containers in members for _ in containers],
    )
    sizes = estimate_groups(cluster.fleet, groups)
    anyway = cluster.config.recommend_without_samples
    found: dict[VpaId, dict[str, Estimate]] = {}
    at = 0
    for vpa, containers in members:
        found[vpa.id] = {}
        for name in containers:
            controlled = controlled_resources(container_policy(vpa.object, name))
            sampled = controlled if anyway else _sampled(sizes, at, controlled)
            if sampled or not controlled:
                found[vpa.id][name] = _estimate(sizes, at, sampled)
            at += 1
    return found


def _rows_by_container(vpa: Vpa) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for key, state in vpa.aggregates.items():
        if isinstance(state, RowAggregate):
            rows.setdefault(key.container, []).append(state.row)
    for name, state in vpa.initial.items():
        if isinstance(state, RowAggregate):
            rows.setdefault(name, []).append(state.row)
    return {name: found for name, found in rows.items() if not scaling_off(container_policy(vpa.object, name))}


def _sampled(sizes: Estimates, at: int, controlled: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in controlled if sizes.sampled[RESOURCES.index(name), at])


def _estimate(sizes: Estimates, at: int, wanted: Collection[str]) -> Estimate:
    columns = {"cpu": sizes.cpu[:, at].tolist(), "memory": sizes.memory[:, at].tolist()}
    target, lower, upper = (
        {name: columns[name][axis] for name in RESOURCES if name in wanted} for axis in range(len(sizes.cpu))
    )
    return Estimate(target, lower, upper)
