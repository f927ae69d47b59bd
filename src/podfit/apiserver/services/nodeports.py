"""Node ports of Services: allocated when a Service needs them, released when it is deleted or no longer needs them.

Ports in use are read from the stored Services when a port is needed, which is rare. An allocated port is reserved for
its Service until that one is stored, for a minute at most.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError, internal_error, invalid, unprocessable
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import usable
from podfit.apiserver.strategy.kinds.services.changes import ON_NODES, health_checked, needs_ports

SERVICE = kind_named("Service")
FIRST, LAST = 30_000, 32_767
_HELD_S = 60.0
_TAKEN = "provided port is already allocated"
_OUTSIDE = f"provided port is not in the valid range. The range of valid ports is {FIRST}-{LAST}"
_Key = tuple[str, str]


class NodePorts:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._held: dict[int, tuple[_Key, float]] = {}
        """The reservations by port: the Service, and the time of the allocation."""

    def stored(self, service: Object) -> None:
        key = _key(service)
        self._held = {number: held for number, held in self._held.items() if held[0] != key}

    def allocate(self, service: Object, dry_run: bool = False) -> None:
        """Sets the node ports of a new Service; the first unavailable one fails the request."""
        spec = service.get("spec") or {}
        if not _on_nodes(spec):
            return
        request = _Request(self, service, {}, dry_run)
        request.ports(spec)
        if health_checked(spec):
            request.health_check(spec)

    def reallocate(self, service: Object, old: Object, dry_run: bool = False) -> None:
        """Like `allocate`, for an update: the ports of the stored Service remain available to it."""
        spec = service.get("spec") or {}
        if not _on_nodes(spec):
            return
        request = _Request(self, service, old, dry_run)
        request.changed_ports(spec)
        if health_checked(spec) and not health_checked(old.get("spec") or {}):
            request.health_check(spec)

    def taken(self, stored: _Key | None, mine: _Key) -> set[int]:
        """The ports in use by Services other than the stored one, or reserved for Services other than `mine`."""
        now = self._objects.clock.monotonic()
        self._held = {number: held for number, held in self._held.items() if now - held[1] < _HELD_S}
        rows = (row for row in usable(SERVICE, self._objects.list(SERVICE)) if _key(row) != stored)
        used = {number for row in rows for number in _numbers_in(row)}
        return used | {number for number, held in self._held.items() if held[0] != mine}

    def hold(self, number: int, key: _Key) -> None:
        self._held[number] = (key, self._objects.clock.monotonic())


class _Request:
    """The ports of one Service being written. A dry run reserves none, and does not check the range."""

    def __init__(self, allocator: NodePorts, service: Object, old: Object, dry_run: bool) -> None:
        self._allocator, self._key, self._dry_run = allocator, _key(service), dry_run
        self._own, self._mine = set(_numbers_in(old)), list[int]()
        self._taken = allocator.taken(_key(old) if old else None, self._key)

    def ports(self, spec: Object) -> None:
        """Allocates the ports of a new Service. A port that is served over several protocols has the same number for
        all."""
        ports, shared = spec.get("ports") or [], dict[int, int]()
        for at, port in enumerate(ports):
            served = port.get("port", 0)
            if not port.get("nodePort") and not needs_ports(spec):
                continue
            if served not in shared:
                wanted = next((p["nodePort"] for p in ports if p.get("port") == served and p.get("nodePort")), 0)
                shared[served] = port["nodePort"] = self._claim(wanted, at) if wanted else self._free()
            elif not port.get("nodePort"):
                port["nodePort"] = shared[served]
            elif port["nodePort"] != shared[served]:
                self._claim(port["nodePort"], at)

    def changed_ports(self, spec: Object) -> None:
        seen: set[tuple[str, int]] = set()
        for at, port in enumerate(spec.get("ports") or []):
            number = port.get("nodePort") or 0
            if not number and not needs_ports(spec):
                continue
            if not number:
                port["nodePort"] = number = self._free()
            elif number not in self._own and number not in self._mine:
                self._claim(number, at)
            entry = port.get("protocol", "TCP"), number
            if entry in seen:
                raise ApiError(500, "", f"duplicate nodePort: {{{entry[0]} {number}}}")
            seen.add(entry)

    def health_check(self, spec: Object) -> None:
        number = spec.get("healthCheckNodePort")
        if not number:
            spec["healthCheckNodePort"] = self._free()
        elif why := self._problem(number):
            raise internal_error(f"failed to allocate requested HealthCheck NodePort {number}: {why}")
        else:
            self._take(number)

    def _claim(self, number: int, at: int) -> int:
        if why := self._problem(number):
            raise unprocessable("Service", self._key[1], [invalid(f"spec.ports[{at}].nodePort", number, why)])
        return self._take(number)

    def _problem(self, number: int) -> str:
        if not self._dry_run and not FIRST <= number <= LAST:
            return _OUTSIDE
        return _TAKEN if number in self._taken or number in self._mine or number in self._own else ""

    def _take(self, number: int) -> int:
        self._mine.append(number)
        if not self._dry_run:
            self._allocator.hold(number, self._key)
        return number

    def _free(self) -> int:
        if self._dry_run:
            return self._take(max(self._mine, default=LAST + 1) + 1)
        taken = self._taken | self._own | set(self._mine)
        free = [number for number in range(FIRST, LAST + 1) if number not in taken]
        if not free:
            raise internal_error("failed to allocate a nodePort: range is full")
        return self._take(random.choice(free))


def _key(service: Object) -> _Key:
    meta = service.get("metadata") or {}
    return meta.get("namespace", ""), meta.get("name", "")


def _on_nodes(spec: Object) -> bool:
    return spec.get("type") in ON_NODES


def _numbers_in(service: Object) -> Iterator[int]:
    spec = service.get("spec") or {}
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]
