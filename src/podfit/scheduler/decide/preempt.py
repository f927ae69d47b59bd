"""Preemption: decides which pods to remove so that a higher-priority one fits, as few and of as low a priority as
possible."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podfit.api.objects import Object
from podfit.api.selectors import LabelSelector, SelectorError
from podfit.scheduler.decide.board import Board, Refused
from podfit.scheduler.decide.fit.fitting import Fitting
from podfit.scheduler.decide.fit.reasons import NEVER, NO_VICTIMS, NOT_HELPFUL, TERMINATING, available
from podfit.scheduler.decide.pod.pods import BoundPod, pod_key, priority_of

_LEAST_CANDIDATES, _SHARE = 100, 10
_OFFSET = 2**31
"""Makes priorities positive, so that fewer victims always weigh less."""


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    row: int
    node: str
    victims: tuple[BoundPod, ...]
    """The highest priority first."""
    violations: int


@dataclass(frozen=True, slots=True)
class NoRoom:
    """Preemption does not help; the message gives the reason."""

    message: str
    eligible: bool = True
    """False: the pod may not preempt, whatever the nodes hold. Its nomination for a node stays."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A disruption budget, as far as it decides which pods may be evicted."""

    namespace: str
    selector: LabelSelector
    allowed: int
    gone: frozenset[str]


def budgets_from(objects: Iterable[Object]) -> list[Budget]:
    found = []
    for obj in objects:
        try:
            selector = LabelSelector.from_object((obj.get("spec") or {}).get("selector"))
        except SelectorError:
            continue
        status = obj.get("status") or {}
        if selector.nothing or selector.everything:
            continue
        found.append(
            Budget(
                obj["metadata"].get("namespace") or "",
                selector,
                int(status.get("disruptionsAllowed") or 0),
                frozenset(status.get("disruptedPods") or ()),
            )
        )
    return found


def preempt(
    board: Board, pod: Object, refused: Refused, budgets: list[Budget], rng: random.Random | None = None
) -> PreemptionCandidate | NoRoom:
    priority = priority_of(pod)
    if (pod.get("spec") or {}).get("preemptionPolicy") == "Never":
        return NoRoom(NEVER, eligible=False)
    if _victims_terminating(board, pod, priority):
        return NoRoom(TERMINATING, eligible=False)
    snapshot, codes = board.snapshot, refused.codes
    nodes = len(snapshot)
    if codes is None:
        return NoRoom(available(nodes, {}))
    hopeless = refused.fitting.unresolvable(codes)
    reasons: Counter[str] = Counter({NOT_HELPFUL: int((hopeless & snapshot.alive).sum())})
    open_rows = snapshot.alive & ~hopeless
    lower = open_rows & (snapshot.lowest < priority)
    reasons[NO_VICTIMS] += int((open_rows & ~lower).sum())
    rows = np.flatnonzero(lower)
    candidates = _candidates(board, pod, refused.fitting, rows, budgets, reasons, rng)
    return _best(candidates) if candidates else NoRoom(available(nodes, reasons))


def _victims_terminating(board: Board, pod: Object, priority: int) -> bool:
    """Whether pods on the nominated node are already terminating, so that no further victims are needed."""
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    row = board.snapshot.rows.get(nominated or "", -1)
    if row < 0:
        return False
    return any(bound.terminating and bound.priority < priority for bound in board.snapshot.here[row].values())


def _candidates(
    board: Board,
    pod: Object,
    fitting: Fitting,
    rows: NDArray[np.intp],
    budgets: list[Budget],
    reasons: Counter[str],
    rng: random.Random | None,
) -> list[PreemptionCandidate]:
    """Checks nodes, starting at a random one to spread the load, until there are enough candidates."""
    enough = max(_LEAST_CANDIDATES, len(board.snapshot) // _SHARE)
    start = rng.randrange(len(rows)) if rng is not None and len(rows) else 0
    found: list[PreemptionCandidate] = []
    clean = False
    for row in np.roll(rows, -start).tolist():
        with board.snapshot.rehearsal():
            candidate = _on_node(board, pod, fitting, row, budgets, reasons)
        if candidate is not None:
            found.append(candidate)
            clean = clean or not candidate.violations
            if clean and len(found) >= enough:
                break
    return found


def _on_node(
    board: Board, pod: Object, fitting: Fitting, row: int, budgets: list[Budget], reasons: Counter[str]
) -> PreemptionCandidate | None:
    snapshot, priority = board.snapshot, priority_of(pod)
    promised = board.nominated_on(pod).get(row, [])
    victims = sorted((bound for bound in snapshot.here[row].values() if bound.priority < priority), key=importance)
    for bound in victims:
        snapshot.remove_pod(bound.key)
    removed = {victim.key: victim for victim in victims}
    try:
        if not board.fits_beside(fitting, row, promised):
            with board.beside(promised):
                reasons.update(fitting.reasons_of(row))
            return None
        protected, free = _by_budget(victims, budgets)
        violations = 0
        for bound in [*protected, *free]:
            snapshot.put_pod(bound)
            if board.fits_beside(fitting, row, promised):
                del removed[bound.key]
            else:
                snapshot.remove_pod(bound.key)
                violations += bound in protected
        chosen = sorted(removed.values(), key=importance)
        return PreemptionCandidate(row, snapshot.names[row], tuple(chosen), violations)
    finally:
        for bound in removed.values():
            snapshot.put_pod(bound)


def importance(pod: BoundPod) -> tuple[int, float]:
    """The sort key of pods: higher priority first, then longer running."""
    return -pod.priority, pod.started


def _by_budget(victims: list[BoundPod], budgets: list[Budget]) -> tuple[list[BoundPod], list[BoundPod]]:
    """The pods whose removal would violate a budget, and the others."""
    left = {id(budget): budget.allowed for budget in budgets}
    protected: list[BoundPod] = []
    free: list[BoundPod] = []
    for victim in victims:
        broken = False
        for budget in budgets:
            if budget.namespace != victim.namespace or not victim.labels or not budget.selector.matches(victim.labels):
                continue
            if victim.key[1] in budget.gone:
                continue
            left[id(budget)] -= 1
            broken = broken or left[id(budget)] < 0
        (protected if broken else free).append(victim)
    return protected, free


def _best(candidates: list[PreemptionCandidate]) -> PreemptionCandidate:
    def cost(candidate: PreemptionCandidate) -> tuple[int, int, int, int, float]:
        victims = candidate.victims
        top = max((victim.priority for victim in victims), default=-_OFFSET)
        oldest = min((victim.started for victim in victims if victim.priority == top), default=0.0)
        total = sum(victim.priority + _OFFSET for victim in victims)
        return candidate.violations, top, total, len(victims), -oldest

    return min(candidates, key=cost)


def less_important_waiting(board: Board, node: str, pod: Object) -> list[BoundPod]:
    """Nominated pods of lower priority, which lose their reservation on the node to this one."""
    mine, priority = pod_key(pod), priority_of(pod)
    return [
        nominated
        for nominated in board.nominated.values()
        if nominated.node == node and nominated.key != mine and nominated.priority < priority
    ]
