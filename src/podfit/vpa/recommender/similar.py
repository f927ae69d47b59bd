"""Sizes from similar containers, for containers with few samples of their own.

It records the program of every container as pods are added, and finds loans for the containers of autoscalers and of
new pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from podfit.api.objects import ObjectView
from podfit.vpa.model.objects.pods import condition, containers
from podfit.vpa.model.objects.policy import (
    container_policy,
    container_recommendations,
    controlled_resources,
    scaling_off,
)
from podfit.vpa.model.objects.programs import Program, program_of
from podfit.vpa.model.similar import FROM_SIMILAR, borrowed_resources, from_similar
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.config import CLUSTER, OFF
from podfit.vpa.recommender.decide.evidence.likeness import Likeness
from podfit.vpa.recommender.decide.evidence.loans import MOST_TRUST, Lending, Loan, raises, suffices
from podfit.vpa.recommender.decide.evidence.samples import Span
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, ClusterState, Pod, Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, minimums, restricted
from podfit.vpa.recommender.decide.histograms.groupsize import for_group
from podfit.vpa.recommender.decide.postprocess import formatted, post_processed
from podfit.vpa.recommender.decide.status import Condition
from podfit.vpa.recommender.plugins import DEFAULT, estimate_one

Loans = Mapping[str, tuple[Loan, Estimate]]
"""The loan of each container, and the sizes from it."""


PluginOf = Callable[[Vpa], str]
"""The recommender that sizes an autoscaler."""


class Similar:
    def __init__(self, cluster: ClusterState) -> None:
        config = cluster.config
        # Upstream's smallest size for containers without samples makes loans unnecessary.
        self._on = config.start_from_similar != OFF and not config.recommend_without_samples
        self._cluster = cluster
        self._likeness = Likeness(config.start_from_similar == CLUSTER)
        self._lending = Lending(cluster, self._likeness)

    def note(self, pod: Pod, found: Iterable[Mapping[str, Any]]) -> None:
        """Records the programs of a pod's containers."""
        for container in found if self._on else ():
            if container.get("image"):
                program = program_of(container)
                self._likeness.note(AggregateKey(pod.id[0], program.name, pod.label_text), program)

    def forget(self, now: Seconds) -> None:
        self._likeness.forget(self._cluster.has_aggregate)
        self._lending.forget(now)

    def loans(
        self, vpa: Vpa, spans: Mapping[str, Span], sizes: Mapping[str, Estimate], plugin_of: PluginOf, now: Seconds
    ) -> Loans:
        """Loans for the autoscaler's containers without enough samples, if a loan changes any size."""
        config = self._cluster.config
        thin = [name for name, span in spans.items() if self._on and not suffices(span, MOST_TRUST, config, now)]
        found: dict[str, tuple[Loan, Estimate]] = {}
        for name in thin:
            program = self._program(vpa, name)
            loan = self._lending.loan(vpa.id[0], program, now) if program is not None else None
            if loan is None or suffices(spans[name], loan.trust, config, now):
                continue
            lent = self._sizes(vpa.object, name, loan, plugin_of(vpa), len(spans), len(vpa.pods))
            if raises(sizes.get(name), lent):
                found[name] = loan, lent
        return found

    def for_pod(self, vpa: ObjectView, pod: ObjectView, known: Collection[str], now: Seconds) -> list[dict[str, Any]]:
        """Recommendations for a new pod's containers that have no samples yet."""
        lacking = [candidate for candidate in containers(pod) if self._on and candidate.get("name") not in known]
        namespace, siblings = vpa["metadata"].get("namespace") or "", len(containers(pod))
        sizes: dict[str, Estimate] = {}
        for container in lacking:
            program = program_of(container)
            loan = self._lending.loan(namespace, program, now)
            if loan is not None and not scaling_off(container_policy(vpa, program.name)):
                sizes[program.name] = self._sizes(vpa, program.name, loan, DEFAULT, siblings, pods=1)
        config = self._cluster.config
        given = formatted({name: size for name, size in sizes.items() if size.target}, config, dict.fromkeys(sizes))
        return [entry.to_object() for entry in post_processed(vpa, given, config)]

    def _sizes(self, vpa: ObjectView, name: str, loan: Loan, plugin: str, siblings: int, pods: int) -> Estimate:
        config = self._cluster.config
        lent = estimate_one(plugin, loan.state, config, minimums(config, siblings), loan.trust)
        return for_group(restricted(lent, controlled_resources(container_policy(vpa, name))), pods, config)

    def _program(self, vpa: Vpa, container: str) -> Program | None:
        """The program of the autoscaler's containers of this name; the latest if there are several."""
        found = None
        for key in vpa.aggregates:
            if key.container == container:
                found = self._likeness.program(key) or found
        return found


def similar_condition(vpa: Vpa, loans: Loans, kept: Collection[str]) -> Condition:
    """The condition that sizes come from similar containers. While published sizes are `kept`, it does not change."""
    words = [
        f"Container {name} has too few samples of its own: its sizes come from containers with {loan.words(vpa.id[0])}."
        for name, (loan, _) in sorted(loans.items())
    ]
    if not words and from_similar(vpa.object):
        standing = condition(vpa.object, FROM_SIMILAR) or {}
        entries = container_recommendations(vpa.object)
        stays = any(entry.get("containerName") in kept and borrowed_resources(entry) for entry in entries)
        words = [standing.get("message") or ""] if stays else []
    return Condition(FROM_SIMILAR, bool(words), "TooFewOwnSamples", " ".join(words))
