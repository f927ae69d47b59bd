"""Decides which lower-priority pods of a node to evict for a resize that the node keeps deferring.

In Kubernetes deferred resizes may wait forever; this bounds the time where the policy allows it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.pods.resources import CPU, pod_requests
from podfit.api.pods.room import held, units
from podfit.api.quantity import Quantity
from podfit.api.resize.progress import pending
from podfit.api.resize.verdicts import Deferred
from podfit.kit.rfc3339 import parse_rfc3339
from podfit.scheduler.decide.pod.pods import finished, pod_key, priority_of
from podfit.scheduler.decide.preempt import Budget

Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class AlreadyFits:
    """The node has room, or will have when terminating pods are gone."""


@dataclass(frozen=True, slots=True)
class Evict:
    victims: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Unresolvable:
    """The resize does not fit even without all pods that may be evicted."""

    missing: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return ", ".join(f"{amount}{'m' if name == CPU else ''} {name}" for name, amount in self.missing)


def deferred_since(pod: Object) -> float | None:
    """The time at which the pod's resize was deferred; None if it is not, or is undecided since the spec changed."""
    waiting = pending(pod)
    if waiting is None or not isinstance(waiting.verdict, Deferred):
        return None
    return parse_rfc3339(waiting.since) if waiting.since else 0.0


def make_room(
    pod: Object, node: Object, pods: Iterable[Object], budgets: list[Budget]
) -> AlreadyFits | Evict | Unresolvable:
    """`pods` are those of the node. Others count with their allocation, this one with its desired size."""
    status = node.get("status") or {}
    limits = {name: units(name, Quantity.parse(text)) for name, text in (status.get("allocatable") or {}).items()}
    wanted = _amounts(pod_requests(pod, use_status=True))
    missing = {name: amount - limits.get(name, 0) for name, amount in wanted.items()}
    mine, staying = pod_key(pod), []
    for other in pods:
        if pod_key(other) == mine or finished(other) or other["metadata"].get("deletionTimestamp"):
            continue
        staying.append(other)
        for name, amount in _held(other).items():
            if name in missing:
                missing[name] += amount
    if not _short(missing):
        return AlreadyFits()
    return _victims(pod, staying, missing, budgets)


def _victims(pod: Object, staying: list[Object], missing: Amounts, budgets: list[Budget]) -> Evict | Unresolvable:
    priority = priority_of(pod)
    lower = sorted((other for other in staying if priority_of(other) < priority), key=_importance)
    left = {id(budget): budget.allowed for budget in budgets}
    chosen: list[Object] = []
    for candidate in lower:
        if not _short(missing):
            break
        takes = _held(candidate)
        helps = any(takes.get(name, 0) > 0 for name in _short(missing))
        if helps and _may_go(candidate, budgets, left):
            chosen.append(candidate)
            _add(missing, takes, -1)
    if short := _short(missing):
        return Unresolvable(tuple(sorted(short.items())))
    for candidate in reversed(list(chosen)):
        _add(missing, _held(candidate), 1)
        if _short(missing):
            _add(missing, _held(candidate), -1)
        else:
            chosen.remove(candidate)
    return Evict(tuple(chosen))


def _importance(pod: Object) -> tuple[int, float]:
    """The sort key of victims: lowest priority first, then the latest started."""
    began = (pod.get("status") or {}).get("startTime")
    return priority_of(pod), -(parse_rfc3339(began) if began else float("inf"))


def _may_go(pod: Object, budgets: list[Budget], left: dict[int, int]) -> bool:
    namespace, name = pod_key(pod)
    labels = pod["metadata"].get("labels") or {}
    mine = [
        budget
        for budget in budgets
        if budget.namespace == namespace and budget.selector.matches(labels) and name not in budget.gone
    ]
    if any(left[id(budget)] <= 0 for budget in mine):
        return False
    for budget in mine:
        left[id(budget)] -= 1
    return True


def _held(pod: Object) -> Amounts:
    """The resources that a pod holds according to its node's accounting, which differs from the scheduler's."""
    return _amounts(held(pod))


def _amounts(found: dict[str, Quantity]) -> Amounts:
    return {name: units(name, amount) for name, amount in found.items()}


def _short(missing: Amounts) -> Amounts:
    return {name: amount for name, amount in missing.items() if amount > 0}


def _add(missing: Amounts, takes: Amounts, sign: int) -> None:
    for name in missing:
        missing[name] += sign * takes.get(name, 0)
