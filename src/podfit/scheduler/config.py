"""The configuration of a scheduler, which the composer fills in from the command line."""

from __future__ import annotations

from dataclasses import dataclass, field

from podfit.scheduler.decide.fit.rules import Rules

WAIT, PREEMPT = "wait", "preempt"


@dataclass
class SchedulerConfig:
    scheduler_name: str = "default-scheduler"
    """Pods with this spec.schedulerName are scheduled."""
    rules: Rules = field(default_factory=Rules)
    deferred_resize_policy: str = WAIT
    """`preempt`: a resize deferred longer than the deadline may evict lower-priority pods of its node."""
    deferred_resize_deadline_s: float = 60.0
    bind_workers: int = 64
    """The maximum of concurrent bindings."""
    write_workers: int = 16
    """The maximum of other concurrent writes (conditions, preemptions)."""
    turn_pods: int = 256
    """How many pods are decided before the loop yields to other tasks."""
    flush_after_s: float = 300.0
    """Pending pods are retried after this time even if no relevant change was seen."""
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.deferred_resize_policy not in (WAIT, PREEMPT):
            given = self.deferred_resize_policy
            raise ValueError(f'the deferred resize policy must be "wait" or "preempt", not "{given}"')
        if self.deferred_resize_deadline_s < 0:
            raise ValueError("the deferred resize deadline must not be negative")
