"""Finds missing samples of an autoscaler's containers: which are missing, and since when. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from podfit.vpa.model.objects.policy import (
    RESOURCES,
    container_policies,
    container_policy,
    container_recommendations,
    controlled_resources,
    scaling_off,
)
from podfit.vpa.model.objects.recommended import Recommended, from_object
from podfit.vpa.model.times import NEVER, Seconds, to_rfc3339
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.amounts import quantities
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, minimums


@dataclass(frozen=True, slots=True)
class Span:
    """The times of a container's first and last CPU sample, and the number of samples."""

    first: Seconds = NEVER
    last: Seconds = NEVER
    count: int = 0
    newest: Seconds = NEVER
    """The last sample that is not from a checkpoint: those lack the memory peaks of the last hours."""

    def plus(self, state: AggregateState, saved: bool) -> Span:
        begins = [first for first in (self.first, state.first) if first != NEVER]
        newest = self.newest if saved else max(self.newest, state.last)
        return Span(min(begins, default=NEVER), max(self.last, state.last), self.count + state.count, newest)


@dataclass(frozen=True, slots=True)
class Missing:
    """Samples that are missing for running containers: resources without any sample, and the last sample where they
    stopped."""

    never: tuple[tuple[str, tuple[str, ...]], ...] = ()
    kept: frozenset[str] = frozenset()
    """The containers whose published recommendation is kept."""
    seen: Seconds = NEVER
    """When the first of the containers without samples was first seen."""
    stopped: tuple[tuple[str, Seconds], ...] = ()
    lent: frozenset[str] = frozenset()
    """The containers whose recommendation currently comes from similar ones."""

    def never_message(self, since: str) -> str:
        return " ".join(self._never(name, lacking, since) for name, lacking in self.never)

    def _never(self, container: str, lacking: tuple[str, ...], since: str) -> str:
        resource = "" if len(lacking) == len(RESOURCES) else f"{lacking[0]} "
        so = f"no {resource}recommendation can be given"
        if container in self.kept:
            so = "its recommendation is frozen"
        elif container in self.lent:
            so = f"its {resource}recommendation comes from similar containers"
        return f"No {resource}sample of container {container} has arrived since {since}: {so}."

    @property
    def stopped_message(self) -> str:
        return " ".join(
            f"No sample of container {name} has arrived since {to_rfc3339(last)}: its recommendation is frozen."
            for name, last in self.stopped
        )


NOTHING_MISSING = Missing()
NO_NAMES: frozenset[str] = frozenset()


def spans_of(vpa: Vpa) -> dict[str, Span]:
    """The spans of the autoscaler's containers. Those that are switched off are omitted."""
    found: dict[str, Span] = {}
    for key, state in vpa.aggregates.items():
        name, known = key.container, found.get(key.container)
        found[name] = _span(state) if known is None else known.plus(state, saved=False)
    for name, state in vpa.initial.items():
        found[name] = found.get(name, Span()).plus(state, saved=True)
    if not container_policies(vpa.object):
        return found
    return {name: span for name, span in found.items() if not scaling_off(container_policy(vpa.object, name))}


def _span(state: AggregateState) -> Span:
    last = state.last
    return Span(state.first, last, state.count, last)


def missing_samples(
    cluster: ClusterState,
    vpa: Vpa,
    spans: Mapping[str, Span],
    sizes: Mapping[str, Estimate],
    kept: frozenset[str],
    stale_before: Seconds,
    lent: Collection[str] = (),
) -> Missing:
    """The samples that are missing. `sizes` are the sizes that the samples allow. If a container's last sample is older
    than `stale_before`, later ones are missing. `lent` are the containers whose sizes come from similar ones."""
    never = {name: lacking for name in spans if (lacking := _lacking(vpa, name, sizes.get(name)))}
    stopped = {name: span.last for name, span in spans.items() if NEVER < span.last < stale_before}
    if not never and not stopped:
        return NOTHING_MISSING
    running = cluster.running_containers(vpa)
    created = [state.created for key, state in vpa.aggregates.items() if key.container in never]
    return Missing(
        tuple((name, lacking) for name, lacking in sorted(never.items()) if name in running),
        kept,
        min(created, default=NEVER),
        tuple((name, last) for name, last in sorted(stopped.items()) if name in running),
        frozenset(lent),
    )


def _lacking(vpa: Vpa, container: str, size: Estimate | None) -> tuple[str, ...]:
    if size is not None and len(size.target) == len(RESOURCES):
        return ()
    controlled = controlled_resources(container_policy(vpa.object, container))
    given: Collection[str] = size.target if size is not None else ()
    return tuple(name for name in controlled if name not in given)


def kept_containers(
    vpa: Vpa, spans: Mapping[str, Span], fresh_after: Seconds, config: Config, killed: Collection[str], fetching: bool
) -> frozenset[str]:
    """The containers whose published sizes are kept, because there is no new information about them yet.

    A recommender that starts while metrics are missing knows less than its predecessor did. So sizes are kept until
    there is a sample after `fresh_after`, or an out-of-memory kill (the container is in `killed`). All sizes are kept
    while the history is being fetched.
    """
    if not fetching and (
        config.expire_samples_without_metrics
        or not any(_unchanged(span, fresh_after, name in killed) for name, span in spans.items())
    ):
        return NO_NAMES
    entries = container_recommendations(vpa.object)
    named = [(entry.get("containerName") or "", entry) for entry in entries]
    return frozenset(
        name
        for name, entry in named
        if (fetching or _unchanged(spans.get(name), fresh_after, name in killed))
        and not scaling_off(container_policy(vpa.object, name))
        and _learned(from_object(entry), spans.get(name, Span()), len(entries), config)
    )


def _unchanged(span: Span | None, fresh_after: Seconds, killed: bool) -> bool:
    return span is not None and span.newest < fresh_after and not killed


def _learned(entry: Recommended, span: Span, containers: int, config: Config) -> bool:
    """Whether the published sizes are based on samples. Sizes equal to the minimum may be based on none."""
    if span.count or config.recommend_without_samples:
        return True
    least = quantities(
        minimums(config, containers), config.humanize_memory, config.round_cpu_millicores, config.round_memory_bytes
    )
    sizes = entry.uncapped or entry.target
    return any(amount > least[name] for name, amount in sizes.items() if name in least)
