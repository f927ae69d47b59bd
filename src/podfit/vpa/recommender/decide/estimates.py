"""Raw estimates for all autoscalers of a cluster in one call. The recommender's loop calls it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podfit.vpa.model.objects.policy import (
    RESOURCES,
    container_policies,
    container_policy,
    controlled_resources,
    scaling_off,
)
from podfit.vpa.recommender.decide.fleet.bulk import Groups, estimate_groups
from podfit.vpa.recommender.decide.fleet.rows import RowAggregate
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa, VpaId
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, estimate_all, restricted


def estimate_vpas(cluster: ClusterState, vpas: Iterable[Vpa]) -> dict[VpaId, dict[str, Estimate]]:
    """Raw estimates by autoscaler and container. Containers that are switched off or have no samples are omitted."""
    if cluster.fleet is None:
        return {vpa.id: estimate_all(cluster.for_recommendation(vpa), cluster.config) for vpa in vpas}
    members = [(vpa, _rows_by_container(vpa)) for vpa in vpas]
    groups = Groups.of(
        [rows for _, containers in members for rows in containers.values()],
        [len(containers) for _, containers in members for _ in containers],
    )
    sizes = estimate_groups(cluster.fleet, groups)
    anyway = cluster.config.recommend_without_samples
    columns = zip(*(array.T.tolist() for array in (sizes.cpu, sizes.memory, sizes.sampled)), strict=True)
    found: dict[VpaId, dict[str, Estimate]] = {}
    for vpa, containers in members:
        given = found[vpa.id] = {}
        for name in containers:
            cpu, memory, (cpu_sampled, memory_sampled) = next(columns)
            controlled = controlled_resources(container_policy(vpa.object, name))
            if controlled is RESOURCES and (anyway or (cpu_sampled and memory_sampled)):
                given[name] = _whole(cpu, memory)
                continue
            known = {"cpu": anyway or cpu_sampled, "memory": anyway or memory_sampled}
            if not controlled or any(known[resource] for resource in controlled):
                given[name] = restricted(_whole(cpu, memory), [resource for resource in controlled if known[resource]])
    return found


def _rows_by_container(vpa: Vpa) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for key, state in vpa.aggregates.items():
        if isinstance(state, RowAggregate):
            rows.setdefault(key.container, []).append(state.row)
    for name, state in vpa.initial.items():
        if isinstance(state, RowAggregate):
            rows.setdefault(name, []).append(state.row)
    if not container_policies(vpa.object):
        return rows
    return {name: found for name, found in rows.items() if not scaling_off(container_policy(vpa.object, name))}


def _whole(cpu: Sequence[int], memory: Sequence[int]) -> Estimate:
    """Builds an estimate from the target, lower and upper bound of each resource."""
    return Estimate(
        {"cpu": cpu[0], "memory": memory[0]},
        {"cpu": cpu[1], "memory": memory[1]},
        {"cpu": cpu[2], "memory": memory[2]},
    )
