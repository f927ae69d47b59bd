"""How a scheduler is set up. The composer fills it in from flags; nothing else reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from podfit.scheduler.decide.fit.rules import Rules

WAIT, PREEMPT = "wait", "preempt"


@dataclass
class SchedulerConfig:
    scheduler_name: str = "default-scheduler"
    """Pods whose spec.schedulerName is this are ours."""
    rules: Rules = field(default_factory=Rules)
    deferred_resize_policy: str = WAIT
    """`preempt`: a resize deferred longer than the deadline may evict less important pods of its node."""
    deferred_resize_deadline_s: float = 60.0
    bind_workers: int = 64
    """How many bindings are in flight at once."""
    write_workers: int = 16
    """How many other writes (conditions, preemptions) are in flight at once."""
    turn_pods: int = 256
    """How many pods are decided before others in this process get their turn."""
    flush_after_s: float = 300.0
    """Waiting pods are tried again after so long even if nothing seemed to change for them."""
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.deferred_resize_policy not in (WAIT, PREEMPT):
            given = self.deferred_resize_policy
            raise ValueError(f'the deferred resize policy must be "wait" or "preempt", not "{given}"')
        if self.deferred_resize_deadline_s < 0:
            raise ValueError("the deferred resize deadline must not be negative")
