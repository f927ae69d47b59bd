"""Host ports: what a pod asks for, and the sockets that keep anything else from listening on them.

A port that leads to a pod has a listener of the agent's as well, which no connection ever reaches: a program of the
host that tries to use it fails with "address in use" instead of waiting for connections that never come, and so does a
second podfit.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from msgspec import Struct

from podfit.podnet.failures import PortTaken

_KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}


class PortMapping(Struct, frozen=True):
    host_port: int
    container_port: int
    protocol: str = "TCP"
    """TCP, UDP or SCTP."""
    host_ip: str = ""
    """"" for every address of the node."""


class Reservations:
    def __init__(self) -> None:
        self._sockets: dict[str, list[socket.socket]] = {}

    def hold(self, owner: str, ports: Iterable[PortMapping]) -> None:
        """Raises PortTaken, holding none of them then."""
        self.drop(owner)
        held = self._sockets[owner] = []
        try:
            held.extend(_bound(port) for port in ports if port.protocol in _KINDS)
        except PortTaken:
            self.drop(owner)
            raise

    def drop(self, owner: str) -> None:
        for one in self._sockets.pop(owner, ()):
            one.close()

    def close(self) -> None:
        for owner in list(self._sockets):
            self.drop(owner)


def _bound(port: PortMapping) -> socket.socket:
    made = socket.socket(socket.AF_INET, _KINDS[port.protocol])
    try:
        if port.protocol == "TCP":
            # Connections of a program that just ended do not count, and a listener keeps out who reuses addresses.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((port.host_ip, port.host_port))
        if port.protocol == "TCP":
            made.listen(0)
    except OSError as error:
        made.close()
        where = f"{port.host_ip}:{port.host_port}" if port.host_ip else f"{port.host_port}"
        used = error.errno == errno.EADDRINUSE
        why = "in use by another process or pod" if used else f"not available: {error.strerror}"
        raise PortTaken(f"host port {where}/{port.protocol} is {why}") from error
    return made
