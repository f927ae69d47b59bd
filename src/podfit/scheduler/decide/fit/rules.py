"""The settings for scoring nodes: the strategy and the weight of each score, with kube-scheduler's defaults."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"


@dataclass(frozen=True, slots=True)
class Rules:
    strategy: str = LEAST_ALLOCATED
    fit_weight: int = 1
    balanced_weight: int = 1
    taint_weight: int = 3
    node_affinity_weight: int = 2
    spread_weight: int = 2
    pod_affinity_weight: int = 2
    default_spread: bool = True
    """Spread the pods of a Service or a set softly among nodes and zones, if they have no constraints of their own."""
    deterministic: bool = False
    """Among equal nodes take the first instead of a random one."""
    max_shapes: int = 1024
    """How many shapes of pods to cache."""
