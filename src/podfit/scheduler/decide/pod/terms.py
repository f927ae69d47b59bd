"""Inter-pod terms and spread constraints of a pod, parsed once into hashable values.

This module decides which pods match; the snapshot counts the matching pods by node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.selectors import EQUALS, NOT_IN, LabelSelector, Requirement, SelectorError

HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HARD_AFFINITY_WEIGHT = 1
"""The weight that a required affinity of a running pod adds to the score of nodes for the pods it selects."""

Namespaces = Mapping[str, Mapping[str, str]]
"""Labels of each namespace."""
_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Matcher:
    """Selects pods: by listed namespaces, by labels of the namespace, and by labels of the pod."""

    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector

    def matches(self, namespace: str, labels: Mapping[str, str], known: Namespaces) -> bool:
        return self.covers(namespace, known) and self.selector.matches(labels)

    def covers(self, namespace: str, known: Namespaces) -> bool:
        if namespace in self.namespaces:
            return True
        chosen = self.namespace_selector
        return chosen is not None and chosen.matches(known.get(namespace, _NO_LABELS))


@dataclass(frozen=True, slots=True)
class Term:
    topology_key: str
    who: Matcher


@dataclass(frozen=True, slots=True)
class Terms:
    """All inter-pod terms of one pod."""

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[tuple[int, Term], ...] = ()
    """(weight, term); anti-affinity has a negative weight."""

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti_affinity or self.preferred)


NO_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class Spread:
    """One topology spread constraint."""

    topology_key: str
    max_skew: int
    hard: bool
    min_domains: int
    who: Matcher
    matches_self: bool
    honor_affinity: bool
    honor_taints: bool


def _selector(obj: Object | None, keys: Object, labels: Mapping[str, str]) -> LabelSelector:
    try:
        selector = LabelSelector.from_object(obj)
    except SelectorError:
        return LabelSelector(nothing=True)
    if selector.nothing:
        return selector
    extra = [Requirement(key, EQUALS, (labels[key],)) for key in keys.get("matchLabelKeys") or () if key in labels]
    extra += [Requirement(key, NOT_IN, (labels[key],)) for key in keys.get("mismatchLabelKeys") or () if key in labels]
    new = [requirement for requirement in extra if requirement not in selector.requirements]
    return LabelSelector((*selector.requirements, *new)) if new else selector


def _term(term: Object, namespace: str, labels: Mapping[str, str]) -> Term:
    names = frozenset(term.get("namespaces") or ())
    chosen = term.get("namespaceSelector")
    if not names and chosen is None:
        names = frozenset((namespace,))
    by_label: LabelSelector | None = None
    if chosen is not None:
        try:
            by_label = LabelSelector.from_object(chosen)
        except SelectorError:
            by_label = None
    return Term(
        term.get("topologyKey") or "", Matcher(names, by_label, _selector(term.get("labelSelector"), term, labels))
    )


def terms_of(spec: Object, namespace: str, labels: Mapping[str, str]) -> Terms:
    affinity = spec.get("affinity")
    if not affinity:
        return NO_TERMS
    near, away = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    if not near and not away:
        return NO_TERMS
    preferred = [
        (sign * int(term.get("weight") or 0), _term(term.get("podAffinityTerm") or {}, namespace, labels))
        for sign, side in ((1, near), (-1, away))
        for term in side.get(PREFERRED) or ()
    ]
    return Terms(
        tuple(_term(term, namespace, labels) for term in near.get(REQUIRED) or ()),
        tuple(_term(term, namespace, labels) for term in away.get(REQUIRED) or ()),
        tuple(preferred),
    )


def spreads_of(spec: Object, namespace: str, labels: Mapping[str, str]) -> tuple[Spread, ...]:
    found = []
    for row in spec.get("topologySpreadConstraints") or ():
        selector = _selector(row.get("labelSelector"), row, labels)
        found.append(
            Spread(
                row.get("topologyKey") or "",
                int(row.get("maxSkew") or 1),
                (row.get("whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule",
                int(row.get("minDomains") or 1),
                Matcher(frozenset((namespace,)), None, selector),
                selector.matches(labels),
                (row.get("nodeAffinityPolicy") or "Honor") == "Honor",
                (row.get("nodeTaintsPolicy") or "Ignore") == "Honor",
            )
        )
    return tuple(found)
