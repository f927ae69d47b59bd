"""Declared ports of pods that have to share the host's network: one that somebody else listens on makes its container
unready, whatever its probes say, since the answers come from somebody else.

Only for pods that did not ask for the host's network: one that did is left to the program's own error. A container is
checked from its start until it listens itself, and no longer than some seconds after the port was last found taken.
"""

from __future__ import annotations

import asyncio

from podfit.agent.config import AgentConfig
from podfit.agent.decide.states import Object, all_containers
from podfit.agent.notices import WARNING, Notices
from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import ContainerState
from podfit.kit.clock import Clock
from podfit.podnet.listening import taken_by_others

_EVERY_S = 1.0
_CHECKED_S = 10.0
"""A program that does not listen on its declared port within this after its start is not waited for."""


class PortConflicts:
    def __init__(self, config: AgentConfig, host_ip: str, notices: Notices, clock: Clock) -> None:
        self._config, self._host_ip, self._notices, self._clock = config, host_ip, notices, clock

    async def look(self, record: PodRecord, snapshot: Snapshot) -> list[float]:
        """Notes the conflicts in the record. Returns when to look again, if anything is open."""
        if not self._shares(record, snapshot):
            return []
        again = False
        for container in all_containers(record.pod["spec"]):
            state = snapshot.running.get(container["name"])
            ports = _declared(container)
            if state is None or not state.pid or not ports or record.ports_checked.get(container["name"]) == state.id:
                continue
            again = await self._look(record, container["name"], state, ports) or again
        return [_EVERY_S] if again else []

    async def _look(self, record: PodRecord, name: str, state: ContainerState, ports: list[int]) -> bool:
        taken, own = await asyncio.to_thread(taken_by_others, ports, state.pid)
        if taken:
            listed = ", ".join(f"{port}/TCP" for port in taken)
            why = f"port {listed} is in use by another process of the host's network, which the pod shares"
            if record.port_conflicts.get(name) != why:
                self._notices.say(record.pod, WARNING, "PortConflict", why, name)
                record.story.tell("port conflict", why, container=name)
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
