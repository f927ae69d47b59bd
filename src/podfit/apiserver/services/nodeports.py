"""Node ports of Services: allocated when a Service needs some, free again when it is gone or needs them no more.

What is in use is read from the stored Services when a port is needed, which is rare. A port that was handed out is held
for the Service it was for until that one is stored, for a minute at most.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import FieldError, invalid, unprocessable
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import usable

SERVICE = kind_named("Service")
FIRST, LAST = 30_000, 32_767
_HELD_S = 60.0
_TAKEN = "provided port is already allocated"
_OUTSIDE = f"provided port is not in the valid range. The range of valid ports is {FIRST}-{LAST}"
_Port = tuple[str, int]
_Key = tuple[str, str]


class NodePorts:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._held: dict[int, tuple[_Key, float]] = {}
        """By port: the Service it was handed out for, and when."""

    def stored(self, service: Object) -> None:
        key = _key(service)
        self._held = {number: held for number, held in self._held.items() if held[0] != key}

    def allot(self, service: Object) -> None:
        """Fills in the node ports of a new Service; 422 when one it names cannot be had."""
        self.reallot(service, {})

    def reallot(self, service: Object, old: Object) -> None:
        """The same for an update: what the stored Service has is its own."""
        spec = service.get("spec") or {}
        balanced = spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
        if not balanced and not _needs_ports(spec):
            return
        request = _Request(self, service, old)
        if _needs_ports(spec):
            request.ports(spec.get("ports") or [])
        if balanced:
            request.health_check(spec)
        if request.errors:
            raise unprocessable("Service", _key(service)[1], request.errors)

    def taken(self, mine: _Key) -> tuple[set[_Port], set[int]]:
        """Ports of other Services, and numbers that are held for others."""
        now = self._objects.clock.monotonic()
        self._held = {number: held for number, held in self._held.items() if now - held[1] < _HELD_S}
        rows = (row for row in usable(SERVICE, self._objects.list(SERVICE)) if _key(row) != mine)
        return {port for row in rows for port in _ports_in(row)}, {
            n for n, held in self._held.items() if held[0] != mine
        }

    def hold(self, number: int, key: _Key) -> None:
        self._held[number] = (key, self._objects.clock.monotonic())


class _Request:
    """The ports of one Service on its way into the store."""

    def __init__(self, allocator: NodePorts, service: Object, old: Object) -> None:
        self._allocator, self._key = allocator, _key(service)
        self._own, self._mine = set(_ports_in(old)), set[_Port]()
        self._used, self._held = allocator.taken(self._key)
        self.errors: list[FieldError] = []

    def ports(self, ports: list[Object]) -> None:
        shared: dict[int, int] = {}
        for at, port in enumerate(ports):
            # A port that is served over several protocols has one number for all of them.
            if not port.get("nodePort") and port.get("port") in shared:
                port["nodePort"] = shared[port["port"]]
            self._settle(port, "nodePort", port.get("protocol", "TCP"), f"spec.ports[{at}].nodePort")
            shared.setdefault(port.get("port", 0), port["nodePort"])

    def health_check(self, spec: Object) -> None:
        self._settle(spec, "healthCheckNodePort", "", "spec.healthCheckNodePort")

    def _settle(self, holder: Object, field: str, protocol: str, path: str) -> None:
        number = holder.get(field)
        if not number:
            number = holder[field] = self._free()
        elif why := self._problem((protocol, number)):
            self.errors.append(invalid(path, number, why))
            return
        self._mine.add((protocol, number))
        self._allocator.hold(number, self._key)

    def _problem(self, port: _Port) -> str:
        if port in self._own:
            return ""
        if not FIRST <= port[1] <= LAST:
            return _OUTSIDE
        return _TAKEN if port in self._used or port in self._mine or port[1] in self._held else ""

    def _free(self) -> int:
        taken = {number for _, number in (*self._used, *self._mine, *self._own)} | self._held
        free = [number for number in range(FIRST, LAST + 1) if number not in taken]
        if not free:
            raise unprocessable("Service", self._key[1], [invalid("spec.ports", 0, "range is full")])
        return random.choice(free)


def _key(service: Object) -> _Key:
    meta = service.get("metadata") or {}
    return meta.get("namespace", ""), meta.get("name", "")


def _needs_ports(spec: Object) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def _ports_in(service: Object) -> Iterator[_Port]:
    spec = service.get("spec") or {}
    for port in spec.get("ports") or ():
        if port.get("nodePort"):
            yield port.get("protocol", "TCP"), port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield "", spec["healthCheckNodePort"]
