"""Host ports: those that a pod requests, and the sockets that prevent other processes from listening on them.

The agent also listens on a port that is forwarded to a pod, although no connection ever reaches that listener: a
program of the host that tries to use the port fails with "address in use" instead of waiting for connections that never
arrive, and so does a second podfit.
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
        """Occupies the ports. Raises PortTaken if one is in use, and then occupies none of them."""
        self.drop(owner)
        held = self._sockets[owner] = []
        try:
            held.extend(_bound(port) for port in ports if port.protocol in _KINDS)
        except PortTaken:
            self.drop(owner)
            raise

    def drop(self, owner: str) -> None:
        for listening in self._sockets.pop(owner, ()):
            listening.close()

    def close(self) -> None:
        for owner in list(self._sockets):
            self.drop(owner)


def _bound(port: PortMapping) -> socket.socket:
    made = socket.socket(socket.AF_INET, _KINDS[port.protocol])
    try:
        if port.protocol == "TCP":
            # Connections of a program that just exited do not count, and a listener excludes others even if they reuse
            # addresses.
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
