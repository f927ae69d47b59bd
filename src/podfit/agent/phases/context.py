"""The context of a pass over one pod: its record, the latest snapshot, and the components of the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from podfit.agent.actuation.actuator import Actuator
from podfit.agent.actuation.confirmation import Confirmation
from podfit.agent.actuation.memory_waits import MemoryWaits
from podfit.agent.actuation.restarts import Restarts
from podfit.agent.allocation.allocator import Allocator
from podfit.agent.backoff import StartBackoff
from podfit.agent.containers.port_conflicts import PortConflicts
from podfit.agent.containers.power import Power
from podfit.agent.containers.probing import Probing
from podfit.agent.containers.sandboxes import SandboxStarter
from podfit.agent.containers.starter import Starter
from podfit.agent.containers.stopper import Stopper
from podfit.agent.core import Core
from podfit.agent.cpus.policy import CpuPolicy
from podfit.agent.decide.pod import lifecycle
from podfit.agent.decide.pod.lifecycle import Next
from podfit.agent.decide.resize.actuate import Plan
from podfit.agent.furnish.volumes.volumes import Volumes
from podfit.agent.migration.arrival import Arrivals
from podfit.agent.migration.departure import Departures
from podfit.agent.phases.finalizer import Finalizer
from podfit.agent.phases.outcome import Outcome
from podfit.agent.pods.conditions import Conditions
from podfit.agent.pods.observe import Snapshot, observe
from podfit.agent.pods.record import PodRecord
from podfit.agent.status.reporter import Reporter


@dataclass(frozen=True, slots=True)
class Resizing:
    allocator: Allocator
    conditions: Conditions
    actuator: Actuator
    confirmation: Confirmation
    restarts: Restarts
    memory_waits: MemoryWaits
    cpus: CpuPolicy


@dataclass(frozen=True, slots=True)
class ContainerParts:
    sandboxes: SandboxStarter
    starter: Starter
    stopper: Stopper
    backoff: StartBackoff
    probing: Probing
    power: Power
    port_conflicts: PortConflicts


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The components of the agent, which are the same for every pod of the node."""

    core: Core
    resizing: Resizing
    containers: ContainerParts
    volumes: Volumes
    arrivals: Arrivals
    departures: Departures
    reporter: Reporter
    finalizer: Finalizer


class PodContext:
    __slots__ = ("_next", "parts", "plan", "record", "resized", "snapshot", "uid")

    snapshot: Snapshot
    """Set by the phase `observe`, and again by phases that changed something."""

    def __init__(self, record: PodRecord, parts: NodeParts) -> None:
        self.record, self.parts, self.uid = record, parts, record.uid
        self._next: Next | None = None
        self.plan: Plan | None = None
        """The steps of a resize that is due, passed from the phase `restart` to the phase `actuate`."""
        self.resized = False
        """Whether this pass has actuated a resize, or attempted to."""

    @property
    def terminating(self) -> bool:
        return self.record.termination is not None

    @property
    def gone(self) -> bool:
        """Whether the pod is gone from the API."""
        return self.record.termination is not None and self.record.termination.gone

    @property
    def next(self) -> Next:
        """The containers that start next, decided once a pass from the first snapshot."""
        if self._next is None:
            backoff, record = self.parts.containers.backoff, self.record
            self._next = lifecycle.next_steps(
                record.pod,
                self.snapshot.seen,
                lambda container: backoff.delay(record, container),
                frozenset(record.restarting),
            )
        return self._next

    @property
    def initialized(self) -> bool:
        """Whether the init containers are done, by the latest snapshot."""
        restarting = frozenset(self.record.restarting)
        return lifecycle.next_steps(self.record.pod, self.snapshot.seen, lambda container: 0.0, restarting).initialized

    async def observe(self) -> None:
        core = self.parts.core
        self.snapshot = await observe(self.record, core.ledger, core.runtime)

    async def report(self, initialized: bool) -> None:
        await self.parts.reporter.report(self.record, self.snapshot, initialized)


Phase = Callable[[PodContext], Awaitable[Outcome]]
