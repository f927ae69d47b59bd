"""The collaborators shared by all components of the agent. Built once, in `build`, and passed to each constructor."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.agent.config import AgentConfig
from podfit.agent.metrics import AgentMetrics
from podfit.agent.pods.events import Events
from podfit.agent.pods.ledger import Ledger
from podfit.agent.queue import PassQueue
from podfit.agent.runtimes.base import Runtime
from podfit.kit.clock import Clock
from podfit.kit.concurrency.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Core:
    config: AgentConfig
    clock: Clock
    runtime: Runtime
    """The runtime, wrapped so that calls are counted."""
    ledger: Ledger
    events: Events
    metrics: AgentMetrics
    tasks: Tasks
    """Stopped with the agent."""
    queue: PassQueue
