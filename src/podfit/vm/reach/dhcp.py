"""Answers DHCP in a VM pod's network namespace, with the pod's single address (RFC 2131)."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from podfit.podnet.kernel import namespaces

FOREVER = 0xFFFFFFFF
_MAGIC = b"\x63\x82\x53\x63"
_HEAD = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s")
_DISCOVER, _OFFER, _REQUEST, _ACK, _INFORM = 1, 2, 3, 5, 8
_MASK, _ROUTER, _DNS, _HOST_NAME, _MTU, _LEASE, _TYPE, _SERVER, _END = 1, 3, 6, 12, 26, 51, 53, 54, 255
_SEARCH = 119
_LONGEST_OPTION = 255


@dataclass(frozen=True)
class Lease:
    address: str
    prefix: int
    gateway: str
    mac: str
    mtu: int


@dataclass(frozen=True)
class Names:
    """The guest's name and resolver settings."""

    host: str = ""
    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()


def answer(request: bytes, lease: Lease, names: Names = Names()) -> bytes | None:
    """The reply to a packet; None if it is not a client's request, or is addressed to another server."""
    if len(request) < _HEAD.size + 4 or request[_HEAD.size : _HEAD.size + 4] != _MAGIC:
        return None
    head = list(_HEAD.unpack_from(request))
    hardware = head[11][:6].hex(":")
    kind = _options(request[_HEAD.size + 4 :]).get(_TYPE, b"\0")[0]
    if head[0] != 1 or hardware != lease.mac or kind not in (_DISCOVER, _REQUEST, _INFORM):
        return None
    server = ipaddress.IPv4Address(lease.gateway or _first(lease)).packed
    head[0], head[8], head[9] = 2, ipaddress.IPv4Address(lease.address).packed, server
    network = ipaddress.IPv4Interface(f"{lease.address}/{lease.prefix}").network
    options = [
        (_TYPE, bytes((_OFFER if kind == _DISCOVER else _ACK,))),
        (_SERVER, server),
        (_LEASE, struct.pack("!I", FOREVER)),
        (_MASK, network.netmask.packed),
        (_MTU, struct.pack("!H", lease.mtu)),
    ]
    if lease.gateway:
        options.append((_ROUTER, ipaddress.IPv4Address(lease.gateway).packed))
    if servers := b"".join(
        ipaddress.IPv4Address(name_server).packed for name_server in names.servers if ":" not in name_server
    ):
        options.append((_DNS, servers))
    if names.host:
        options.append((_HOST_NAME, names.host.encode()[:63]))
    if search := _domains(names.searches):
        options.append((_SEARCH, search))
    body = b"".join(bytes((code, len(value))) + value for code, value in options)
    return _HEAD.pack(*head) + _MAGIC + body + bytes((_END,))


def _domains(searches: tuple[str, ...]) -> bytes:
    """The search domains in DNS encoding (RFC 3397), as many as fit into one option."""
    found = b""
    for search in searches:
        labels = [label.encode("idna") for label in search.strip(".").split(".") if label]
        name = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
        if len(found) + len(name) > _LONGEST_OPTION:
            break
        found += name
    return found


def _first(lease: Lease) -> str:
    return str(ipaddress.IPv4Interface(f"{lease.address}/{lease.prefix}").network.network_address + 1)


def _options(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 1 < len(data) and data[at] != _END:
        if data[at] == 0:
            at += 1
            continue
        length = data[at + 1]
        found[data[at]] = data[at + 2 : at + 2 + length] or b"\0"
        at += 2 + length
    return found


class DhcpServer:
    def __init__(self, namespace: Path, device: str, lease: Lease, names: Names) -> None:
        self._namespace, self._device, self._lease, self._names = namespace, device, lease, names
        self._socket: socket.socket | None = None

    async def start(self) -> None:
        self._socket = await namespaces.in_thread(self._open)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)

    def _open(self) -> socket.socket:
        namespaces.enter(self._namespace)
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self._device.encode())
        made.bind(("", 67))
        made.setblocking(False)
        return made

    def _read(self) -> None:
        assert self._socket is not None
        try:
            request, _ = self._socket.recvfrom(4096)
            reply = answer(request, self._lease, self._names)
            if reply is not None:
                self._socket.sendto(reply, ("255.255.255.255", 68))
        except OSError:
            # If a broadcast cannot be sent now, the guest repeats its request.
            return

    async def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
