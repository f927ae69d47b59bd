"""Starts, updates and stops the probes of pods. The only writer of a record's `probes`."""

from __future__ import annotations

from podfit.agent.containers.stopper import Stopper
from podfit.agent.core import Core
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.probes.probes import Probes
from podfit.agent.runtimes.base import Runtime
from podfit.api.pods.machines import RUNNING as ON


class Probing:
    def __init__(self, core: Core, commands: Runtime, stopper: Stopper) -> None:
        """`commands`: the runtime, with probe commands counted."""
        self._core, self._commands, self._stopper = core, commands, stopper

    def follow(self, record: PodRecord, snapshot: Snapshot) -> None:
        """Probes running containers, and restarts those that fail."""
        if record.probes is None:
            if not record.probed:
                return
            core = self._core
            record.probes = Probes(record, self._commands, core.events, core.clock, core.queue.enqueue)
        # A VM that is paused or off answers no probe, which is not a reason to restart it.
        on = {
            name: state
            for name, state in snapshot.running.items()
            if state.machine is None or state.machine.power == ON
        }
        record.probes.follow(on)
        for name in record.probes.unhealthy(on):
            message = f"Container {name} failed {record.probes.failed_kind(name)} probe, will be restarted"
            self._stopper.stop(record, snapshot, name, record.probes.grace_s(name), message)

    @staticmethod
    def stop(record: PodRecord) -> None:
        """Stops all probes; the last results are kept."""
        if record.probes is not None:
            record.probes.stop()

    def suspend(self, record: PodRecord) -> None:
        """Stops probing a pod that may move to another node at any moment, where this node cannot probe it. The last
        results are kept."""
        self.stop(record)
        record.probes = None
