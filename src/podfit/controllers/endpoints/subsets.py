"""The subsets of Endpoints: ports that the same addresses offer are listed together, once."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.godump import go_dump

_OFFSET, _PRIME = 0x6C62272E07BB014262B821756295C58D, (1 << 88) + 0x13B
_WORD = (1 << 128) - 1
Place = tuple[str, str, bool]
"""An address: its text, the uid of its pod, and whether it is ready."""


class Subsets:
    """Collects the addresses of pods by the ports they offer; an address may offer none."""

    def __init__(self) -> None:
        self._ports: dict[str, Object | None] = {}
        self._addresses: dict[str, dict[Place, Object]] = {}

    def add(self, ports: list[Object], address: Object, ready: bool) -> None:
        place = (address["ip"], address["targetRef"]["uid"], ready)
        for port in ports or (None,):
            name = repr(port and sorted(port.items()))
            self._ports[name] = port
            self._addresses.setdefault(name, {})[place] = address

    def packed(self) -> list[Object]:
        made: dict[tuple[Place, ...], list[str]] = {}
        for name, addresses in self._addresses.items():
            made.setdefault(tuple(sorted(addresses)), []).append(name)
        return [self._subset(names) for names in made.values()]

    def _subset(self, names: list[str]) -> Object:
        ports = [port for name in names if (port := self._ports[name]) is not None]
        subset: Object = {"ports": sorted(ports, key=_hash)} if ports else {}
        for place, address in self._addresses[names[0]].items():
            subset.setdefault("addresses" if place[2] else "notReadyAddresses", []).append(address)
        return subset


def _hash(port: Object) -> int:
    """Kubernetes sorts ports by the FNV-1a of what Go prints of them."""
    found = _OFFSET
    for byte in go_dump(port, type_named("EndpointPort")).encode():
        found = ((found ^ byte) * _PRIME) & _WORD
    return found
