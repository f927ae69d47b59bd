"""Recommenders by name. A recommender is a function from autoscalers to sizes; everything else is shared.

`default` is upstream's model. `batch` is for pods that run to completion: throughput matters, so their CPU is the mean
usage, not the peak. The policies of `vpa/policies` work on usage over time, not on histograms (`decide/curves`); until
a policy has decided, its containers get the sizes of `default`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from podfit.vpa.model.objects.pods import annotations_of
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.curves.live import NAMES
from podfit.vpa.recommender.decide.estimates import estimate_vpas
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.amounts import amount_of
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa, VpaId
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, estimate, minimums, recommendable, with_margin
from podfit.vpa.recommender.decide.histograms.histogram import mean

Sizes = dict[VpaId, dict[str, Estimate]]
Plugin = Callable[[ClusterState, Sequence[Vpa]], Sizes]
"""Sizes of all containers of all given autoscalers; containers that are switched off, or without samples, are
omitted."""

DEFAULT, BATCH = "default", "batch"
BUNDLED = (BATCH, *NAMES)
WORKLOAD = "podfit.dev/workload"
"""On an autoscaler or a pod: `batch` selects the batch recommender, `serving` the default one."""


def default(cluster: ClusterState, vpas: Sequence[Vpa]) -> Sizes:
    return estimate_vpas(cluster, vpas)


def batch(cluster: ClusterState, vpas: Sequence[Vpa]) -> Sizes:
    found: Sizes = {}
    for vpa in vpas:
        states = cluster.for_recommendation(vpa)
        least = minimums(cluster.config, len(states)) if states else {}
        found[vpa.id] = {
            name: _batch(state, cluster.config, least)
            for name, state in states.items()
            if recommendable(state, cluster.config)
        }
    return found


def _batch(state: AggregateState, config: Config, least: dict[str, int], given_trust: float | None = None) -> Estimate:
    """The sizes of `batch`: memory as in `default`, and the mean as the CPU target, which the bounds enclose."""
    sizes = estimate(state, config, least, given_trust)
    if "cpu" not in sizes.target:
        return sizes
    average = with_margin(amount_of(mean(state.cpu) * 1000.0), config.recommendation_margin_fraction)
    target = max(average, least["cpu"])
    return Estimate(
        {**sizes.target, "cpu": target},
        {**sizes.lower, "cpu": min(sizes.lower["cpu"], target)},
        {**sizes.upper, "cpu": max(sizes.upper["cpu"], target)},
    )


PLUGINS: Mapping[str, Plugin] = {DEFAULT: default, BATCH: batch, **dict.fromkeys(NAMES, default)}


def estimate_one(
    plugin: str, state: AggregateState, config: Config, least: dict[str, int], given_trust: float | None = None
) -> Estimate:
    """The sizes that a recommender gives one container."""
    return (_batch if plugin == BATCH else estimate)(state, config, least, given_trust)


def plugin_for(vpa: Vpa, own_name: str, policies: Iterable[str], pod_notes: Iterable[str] = ()) -> str:
    """The name of an autoscaler's recommender. `policies` and `pod_notes` are its pods' restartPolicy and annotation.

    `batch` and policies are opt-in: the default keeps upstream's numbers. A long-running pod under `batch` gets the
    default.
    """
    note = annotations_of(vpa.object).get(WORKLOAD) or next((note for note in pod_notes if note), "")
    if note in (BATCH, "serving"):
        return BATCH if note == BATCH else DEFAULT
    named: Any = (vpa.object.get("spec") or {}).get("recommenders") or ()
    names = [entry.get("name") for entry in named]
    if policy := next((name for name in names if name in NAMES), ""):
        return policy
    if BATCH not in names:
        return own_name if own_name in PLUGINS else DEFAULT
    seen = set(policies)
    return BATCH if not seen or seen != {"Always"} else DEFAULT


def sizes_by_plugin(cluster: ClusterState, chosen: Mapping[str, list[Vpa]]) -> Sizes:
    found: Sizes = {}
    for name, vpas in chosen.items():
        found.update(PLUGINS[name](cluster, vpas))
    return found
