"""Sizes for containers that have few samples of their own, from the usage of similar containers.

A loan is the usage of similar containers, with a small confidence. It ends when the container's own samples carry as
much weight. Until then its own samples determine whether a running pod is changed, and the larger of the two sizes is
recommended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from podfit.vpa.model.objects.labels import labels_from
from podfit.vpa.model.objects.programs import Program
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.evidence.likeness import LEVELS, Key, Level, Likeness
from podfit.vpa.recommender.decide.evidence.samples import Span
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.cluster import AggregateKey, ClusterState
from podfit.vpa.recommender.decide.histograms.estimate import Estimate, confidence

MOST_TRUST = max(level.trust for level in LEVELS)
LENDS_FROM = 1.0 / 24.0
"""The minimum total confidence of the similar containers: that of an hour of samples, if the interval is a day."""
MOST_LENDERS = 8
"""How many aggregates one loan merges at most: those with the most samples."""
_SEARCHES = 12
"""How often similar containers are searched for again after none were found, within the time that makes a container a
lender."""
_HIDDEN_LABELS = ("pod-template-hash", "controller-revision-hash", "pod-template-generation")


@dataclass(frozen=True, slots=True)
class Loan:
    state: AggregateState
    """The usage of the similar containers."""
    trust: float
    likeness: str
    lenders: tuple[AggregateKey, ...]

    def words(self, namespace: str) -> str:
        """Describes the source of the loan, without numbers that would change with every sample."""
        names = list(dict.fromkeys(_lender(key, namespace) for key in self.lenders))
        more = f" and {len(names) - 2} more" if len(names) > 3 else ""
        shown = names[:2] if more else names
        return f"{self.likeness} (confidence {self.trust:.2g}): {'; '.join(shown)}{more}"


def _lender(key: AggregateKey, namespace: str) -> str:
    labels = ",".join(
        f"{name}={value}" for name, value in labels_from(key.labels).items() if name not in _HIDDEN_LABELS
    )
    where = "" if key.namespace == namespace else f" in namespace {key.namespace}"
    return f"container {key.container} of the pods with {labels or 'no labels'}{where}"


def suffices(span: Span, trust: float, config: Config, now: Seconds) -> bool:
    """Whether a container's own samples carry as much weight as a loan of this confidence, or the container is no
    longer new."""
    if not span.count:
        return False
    if now - span.first >= lasts(config):
        return True
    return confidence(span.first, span.last, span.count, _interval(config)) >= trust


def lasts(config: Config) -> Seconds:
    """The time for which a loan is used before it is recomputed, and for which a container may have one after its own
    first sample. It is a fraction of the confidence interval: an hour of a day."""
    return LENDS_FROM * _interval(config)


def _interval(config: Config) -> Seconds:
    return max(config.confidence_interval_cpu, config.confidence_interval_memory)


def with_loan(own: Estimate | None, lent: Estimate) -> Estimate:
    """The sizes during the loan. A resource with samples of its own keeps its lower bound, so the loan only raises the
    target that is used when the container is changed for another reason."""
    if own is None:
        return lent
    target, lower, upper = dict(own.target), dict(own.lower), dict(own.upper)
    for name, amount in lent.target.items():
        if name not in own.target:
            target[name], lower[name], upper[name] = amount, lent.lower[name], lent.upper[name]
        else:
            target[name] = max(amount, own.target[name])
            upper[name] = max(own.upper[name], target[name])
    return Estimate(target, lower, upper)


def raises(own: Estimate | None, lent: Estimate) -> bool:
    """Whether the loan changes any target."""
    return any(own is None or amount > own.target.get(name, -1) for name, amount in lent.target.items())


class Lending:
    """Computes loans, and caches them for all containers and passes."""

    def __init__(self, cluster: ClusterState, likeness: Likeness) -> None:
        self._cluster, self._likeness = cluster, likeness
        self._made: dict[Key, tuple[Seconds, Loan | None]] = {}
        self._found: dict[tuple[str, Program], tuple[Seconds, Loan | None]] = {}
        """The result of a search by namespace and program; several may share a loan."""

    def loan(self, namespace: str, program: Program, now: Seconds) -> Loan | None:
        """The loan from the most similar containers with enough samples; None if there are none."""
        found = self._found.get((namespace, program))
        if found is None or not self._fresh(*found, now):
            found = self._found[namespace, program] = (now, self._search(namespace, program, now))
        return found[1]

    def _search(self, namespace: str, program: Program, now: Seconds) -> Loan | None:
        for level, key, lenders in self._likeness.similar(namespace, program):
            made = self._made.get(key)
            if made is None or not self._fresh(*made, now):
                made = self._made[key] = (now, self._lent(level, lenders))
            if made[1] is not None:
                return made[1]
        return None

    def forget(self, now: Seconds) -> None:
        self._made = {key: made for key, made in self._made.items() if self._fresh(*made, now)}
        self._found = {key: found for key, found in self._found.items() if self._fresh(*found, now)}

    def _fresh(self, made: Seconds, loan: Loan | None, now: Seconds) -> bool:
        whole = lasts(self._cluster.config)
        return 0 <= now - made < (whole if loan is not None else whole / _SEARCHES)

    def _lent(self, level: Level, lenders: Iterable[AggregateKey]) -> Loan | None:
        found = self._merged(lenders)
        if found is None:
            return None
        state, trust, named = found
        return Loan(state, level.trust * min(1.0, trust), level.words, named)

    def _merged(self, lenders: Iterable[AggregateKey]) -> tuple[AggregateState, float, tuple[AggregateKey, ...]] | None:
        config = self._cluster.config
        states = {key: self._states(key) for key in lenders}
        counted = {key: sum(state.count for state in found) for key, found in states.items()}
        chosen = sorted((key for key, count in counted.items() if count), key=lambda key: (-counted[key], key))
        chosen = chosen[:MOST_LENDERS]
        distinct = {id(state): state for key in chosen for state in states[key]}.values()
        span = Span()
        for state in distinct:
            span = span.plus(state, saved=False)
        trust = confidence(span.first, span.last, span.count, _interval(config))
        if trust < LENDS_FROM:
            return None
        merged = AggregateState(config)
        for state in distinct:
            merged.merge(state)
        return merged, trust, tuple(chosen)

    def _states(self, key: AggregateKey) -> list[AggregateState]:
        """The usage data of an aggregate's containers: their samples, and the checkpoints of their autoscalers."""
        found = self._cluster.aggregate(key)
        saved = [
            vpa.initial[key.container]
            for vpa in self._cluster.matching(key.namespace, labels_from(key.labels))
            if key.container in vpa.initial
        ]
        return [*([found] if found is not None else []), *saved]


def lent_to(own: Mapping[str, Estimate], lent: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """All sizes, with loans applied."""
    return {**own, **{name: with_loan(own.get(name), loan) for name, loan in lent.items()}}
