"""Detects conflicts between declared ports of pods that have to share the host's network. A container whose port
another process listens on is unready whatever its probes report, because that process answers them.

Only for pods that did not request the host's network: in one that did, the program's own error is clear. A container is
checked from its start until it listens itself, and no longer than some seconds after the port was last found in use.
"""

from __future__ import annotations

import asyncio

from podfit.agent.config import AgentConfig
from podfit.agent.pods.events import WARNING, Events
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import ContainerState
from podfit.api.objects import Object
from podfit.api.resize.states import all_containers
from podfit.kit.clock import Clock
from podfit.podnet.kernel.listening import taken_by_others

_EVERY_S = 1.0
_CHECKED_S = 10.0
"""A program that does not listen on its declared port within this time after its start is no longer checked."""


class PortConflicts:
    def __init__(self, config: AgentConfig, host_ip: str, events: Events, clock: Clock) -> None:
        self._config, self._host_ip, self._events, self._clock = config, host_ip, events, clock

    async def check(self, record: PodRecord, snapshot: Snapshot) -> float:
        """Records the conflicts. Returns the seconds until the next check, 0 if none is needed."""
        if not self._shares(record, snapshot):
            return 0.0
        again = False
        for container in all_containers(record.pod["spec"]):
            state = snapshot.running.get(container["name"])
            ports = _declared(container)
            if state is None or not state.pid or not ports or record.ports_checked.get(container["name"]) == state.id:
                continue
            again = await self._check(record, container["name"], state, ports) or again
        return _EVERY_S if again else 0.0

    async def _check(self, record: PodRecord, name: str, state: ContainerState, ports: list[int]) -> bool:
        taken, own = await asyncio.to_thread(taken_by_others, ports, state.pid)
        if taken:
            listed = ", ".join(f"{port}/TCP" for port in taken)
            why = f"port {listed} is in use by another process of the host's network, which the pod shares"
            if record.port_conflicts.get(name) != why:
                self._events.emit(record.pod, WARNING, "PortConflict", why, name)
                record.story.add("port conflict", why, container=name)
            record.port_conflicts[name] = why
            return True
        record.port_conflicts.pop(name, None)
        if set(own) == set(ports) or self._clock.now() - state.started_at > _CHECKED_S:
            record.ports_checked[name] = state.id
            return False
        return True

    def _shares(self, record: PodRecord, snapshot: Snapshot) -> bool:
        if not self._config.on_disk or record.pod["spec"].get("hostNetwork") or snapshot.state is None:
            return False
        return snapshot.state.ips == (self._host_ip,)


def _declared(container: Object) -> list[int]:
    listed = container.get("ports") or ()
    return [int(port["containerPort"]) for port in listed if (port.get("protocol") or "TCP") == "TCP"]
