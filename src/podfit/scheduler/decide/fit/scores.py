"""The score of a node for a pod that fits on it: 0 to 100 each, in whole numbers rounded as in Kubernetes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podfit.api.pods.placement import term_matches, tolerates
from podfit.api.pods.resources import CPU, MEMORY
from podfit.scheduler.decide.cluster.snapshot import Snapshot
from podfit.scheduler.decide.fit.rules import MOST_ALLOCATED, Rules
from podfit.scheduler.decide.pod.pods import PodShape
from podfit.scheduler.decide.pod.terms import HOSTNAME, PREFERRED, Spread

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.floating[Any]]
MAX = 100


def allocation(shape: PodShape, has: Ints, requested: Ints, nonzero: Ints, rules: Rules) -> Ints:
    """Weighted scores of allocation and balance of nodes: a row for cpu, a row for memory, a column per node."""
    needs = shape.needs
    used = nonzero + np.array(((needs.nonzero_cpu,), (needs.nonzero_memory,)))
    divisor, free = np.maximum(has, 1), has - used
    part = np.where(free >= 0, used, 0) if rules.strategy == MOST_ALLOCATED else np.maximum(free, 0)
    part *= MAX
    part //= divisor
    total: Ints = part[0] + part[1]
    if np.count_nonzero(has) == has.size:
        total //= 2
    else:
        total //= np.maximum(np.count_nonzero(has, axis=0), 1)
    if rules.fit_weight != 1:
        total *= rules.fit_weight
    cpu, memory = needs.amounts.get(CPU, 0), needs.amounts.get(MEMORY, 0)
    if cpu or memory:
        share = (requested + np.array(((cpu,), (memory,)))) / divisor
        np.minimum(share, 1.0, out=share)
        gap = np.abs(share[0] - share[1])
        gap /= 2
        balanced = ((1 - gap) * MAX).astype(np.int64)
        total += balanced * rules.balanced_weight if rules.balanced_weight != 1 else balanced
    return total


def allocation_of(shape: PodShape, has: list[int], requested: list[int], nonzero: list[int], rules: Rules) -> int:
    """`allocation` of a single node, from its rows as plain numbers."""
    needs = shape.needs
    fit = counted = 0
    for capacity, used in ((has[0], nonzero[0] + needs.nonzero_cpu), (has[1], nonzero[1] + needs.nonzero_memory)):
        counted += capacity > 0
        if used <= capacity:
            fit += (used if rules.strategy == MOST_ALLOCATED else capacity - used) * MAX // max(capacity, 1)
    total = fit // max(counted, 1) * rules.fit_weight
    cpu, memory = needs.amounts.get(CPU, 0), needs.amounts.get(MEMORY, 0)
    if cpu or memory:
        first = min((requested[0] + cpu) / max(has[0], 1), 1.0)
        second = min((requested[1] + memory) / max(has[1], 1), 1.0)
        total += int((1 - abs(first - second) / 2) * MAX) * rules.balanced_weight
    return total


def preferred_affinity(snapshot: Snapshot, shape: PodShape, rows: list[int]) -> Ints:
    """For each row, the sum of the weights of the node preferences that match."""
    affinity = (shape.spec.get("affinity") or {}).get("nodeAffinity") or {}
    found = np.zeros(len(rows), np.int64)
    for preference in affinity.get(PREFERRED) or ():
        term, weight = preference.get("preference") or {}, int(preference.get("weight") or 0)
        if not term.get("matchExpressions") and not term.get("matchFields"):
            found += weight
            continue
        for at, row in enumerate(rows):
            if term_matches(term, dict(snapshot.labels(row)), snapshot.names[row]):
                found[at] += weight
    return found


def soft_taints(snapshot: Snapshot, shape: PodShape) -> Ints | None:
    """For each taint set, the number of PreferNoSchedule taints that the pod does not tolerate; None if all are 0."""
    soft = [
        toleration
        for toleration in shape.tolerations
        if not toleration.get("effect") or toleration["effect"] == "PreferNoSchedule"
    ]
    counts = [
        sum(
            not any(tolerates(toleration, {"key": key, "value": value, "effect": effect}) for toleration in soft)
            for key, value, effect in taints
            if effect == "PreferNoSchedule"
        )
        for taints in snapshot.taint_sets
    ]
    return np.array(counts, np.int64) if any(counts) else None


def scaled(raw: Ints, among: Bools, reverse: bool = False) -> Ints:
    """Scores relative to the best of the nodes that fit; nothing if they do not differ."""
    top = int(raw[among].max(initial=0))
    if top == 0:
        # A score that is the same for all ranks no node, and must not depend on taints of former nodes.
        return np.zeros(len(raw), np.int64)
    share = raw * MAX // top
    return MAX - share if reverse else share


def stretched(raw: Ints, among: Bools) -> Ints:
    """Scores between the worst and the best of the nodes that fit."""
    low, high = int(raw[among].min()), int(raw[among].max())
    if low == high:
        return np.zeros(len(raw), np.int64)
    stretched: Ints = (MAX * ((raw - low) / (high - low))).astype(np.int64)
    return stretched


def spreading(snapshot: Snapshot, counted: list[tuple[Spread, Ints]], among: Bools) -> Ints:
    """Soft spread constraints with their matching pods by row: fewer in the domain is better."""
    topology = snapshot.topology
    ignored = np.zeros(len(among), np.bool_)
    for spread, _ in counted:
        ignored |= topology.of(spread.topology_key) < 0
    eligible = among & ~ignored
    raw = np.zeros(len(among), np.float64)
    for spread, counts in counted:
        key = spread.topology_key
        ids = topology.of(key)
        if key == HOSTNAME:
            domains, by_row = int(eligible.sum()), counts
        else:
            domains = len(np.unique(ids[eligible]))
            by_row = topology.spread(key, topology.sum(key, counts))
        raw += np.where(ids >= 0, by_row * math.log(domains + 2) + (spread.max_skew - 1), 0)
    return np.where(ignored, 0, _fewest_best(raw, eligible))


def spreading_by_default(snapshot: Snapshot, counted: list[tuple[Spread, Ints]], among: Bools) -> Ints:
    """The same for default constraints: a node without a key is compared by its other keys.

    Counts of nodes are by row, those of larger domains by domain.
    """
    topology, nodes = snapshot.topology, int(np.count_nonzero(among))
    raw: Floats = np.zeros(0)
    flat = 0.0
    for spread, counts in counted:
        key, some = spread.topology_key, float(spread.max_skew - 1)
        if key == HOSTNAME:
            weighted = counts * math.log(nodes + 2)
            if topology.everywhere(key):
                flat += some
            else:
                weighted = np.where(topology.of(key) >= 0, weighted + some, 0.0)
        else:
            ids = topology.of(key)
            domains = topology.domains(key) if nodes == len(snapshot) else len(np.unique(ids[among]))
            by_domain = counts * math.log(domains + 2) + some
            by_domain[-1] = 0.0
            weighted = by_domain.take(ids)
        raw = np.add(raw, weighted, out=raw) if len(raw) else weighted
    return _fewest_best(raw, among, flat)


def _fewest_best(raw: Floats, eligible: Bools, flat: float = 0.0) -> Ints:
    """Whole numbers from the least loaded (100) down; there are few distinct ones, so each is divided once.

    `flat` is the same for all nodes; nodes that are not eligible get an arbitrary number.
    """
    rounded = np.where(eligible, (raw + (flat + 0.5)).astype(np.int64), 0)
    high = int(rounded.max(initial=0))
    if high == 0:
        return np.full(len(raw), MAX if eligible.any() else 0, np.int64)
    low = int(np.where(eligible, rounded, high).min())
    table: Ints = MAX * (high + low - np.arange(high + 1)) // high
    return table.take(rounded)
