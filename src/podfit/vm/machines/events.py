"""Runs libvirt's event loop in a thread of its own, and passes events to the asyncio loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import libvirt

log = logging.getLogger(__name__)

STARTED, RESUMED, STOPPED, SHUTDOWN, CRASHED = "started", "resumed", "stopped", "shutdown", "crashed"
REMOVED, REMOVAL_FAILED, RESIZED, AGENT_UP, AGENT_DOWN = (
    "removed",
    "removal-failed",
    "resized",
    "agent-up",
    "agent-down",
)
BALLOON, DISK_FAILED = "balloon", "disk-failed"

_LIFE = {
    libvirt.VIR_DOMAIN_EVENT_STARTED: STARTED,
    libvirt.VIR_DOMAIN_EVENT_RESUMED: RESUMED,
    libvirt.VIR_DOMAIN_EVENT_STOPPED: STOPPED,
    libvirt.VIR_DOMAIN_EVENT_SHUTDOWN: SHUTDOWN,
    libvirt.VIR_DOMAIN_EVENT_CRASHED: CRASHED,
}
_started = threading.Lock()
_running = False


@dataclass(frozen=True)
class Event:
    uuid: str
    kind: str
    detail: str = ""
    """The alias of a device, or the reason why a domain stopped."""


def run_loop() -> None:
    """Starts libvirt's event loop, once per process; before the first connection."""
    global _running
    with _started:
        if _running:
            return
        _running = True
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        libvirt.virEventRegisterDefaultImpl()
        threading.Thread(target=_forever, name="libvirt-events", daemon=True).start()


def _forever() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


class Events:
    """Events of one connection, delivered in the asyncio loop."""

    def __init__(self, connection: Any, deliver: Callable[[Event], None]) -> None:
        self._loop, self._deliver, self._connection = asyncio.get_running_loop(), deliver, connection
        register = connection.domainEventRegisterAny
        self._numbers = [
            register(None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._life, None),
            register(None, libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED, self._device(REMOVED), None),
            register(None, libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED, self._device(REMOVAL_FAILED), None),
            register(None, libvirt.VIR_DOMAIN_EVENT_ID_MEMORY_DEVICE_SIZE_CHANGE, self._resized, None),
            register(None, libvirt.VIR_DOMAIN_EVENT_ID_BALLOON_CHANGE, self._balloon, None),
            register(None, libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, self._agent, None),
        ]

    def close(self) -> None:
        for number in self._numbers:
            try:
                self._connection.domainEventDeregisterAny(number)
            except libvirt.libvirtError as error:
                log.debug("the event threads cannot be stopped: %s", error)

    def _post(self, domain: Any, kind: str, detail: str = "") -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver, Event(domain.UUIDString(), kind, detail))
        except RuntimeError:
            log.debug("%s after the loop has ended", kind)

    def _life(self, _connection: Any, domain: Any, event: int, detail: int, _opaque: Any) -> None:
        kind = _LIFE.get(event)
        if event == libvirt.VIR_DOMAIN_EVENT_SUSPENDED and detail == libvirt.VIR_DOMAIN_EVENT_SUSPENDED_IOERROR:
            kind = DISK_FAILED
        if kind is not None:
            self._post(domain, kind, str(detail))

    def _device(self, kind: str) -> Callable[[Any, Any, str, Any], None]:
        def deliver(_connection: Any, domain: Any, alias: str, _opaque: Any) -> None:
            self._post(domain, kind, alias)

        return deliver

    def _resized(self, _connection: Any, domain: Any, alias: str, _size: int, _opaque: Any) -> None:
        self._post(domain, RESIZED, alias)

    def _balloon(self, _connection: Any, domain: Any, _actual: int, _opaque: Any) -> None:
        self._post(domain, BALLOON)

    def _agent(self, _connection: Any, domain: Any, state: int, _reason: int, _opaque: Any) -> None:
        up = state == libvirt.VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED
        self._post(domain, AGENT_UP if up else AGENT_DOWN)
