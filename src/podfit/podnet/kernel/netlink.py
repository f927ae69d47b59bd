"""Links, addresses and routes through rtnetlink(7): only what a pod's network needs, IPv4 only.

A `Netlink` is bound to the network namespace of the thread that opened it.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from types import TracebackType

from msgspec import Struct

_REQUEST, _ACK, _DUMP, _EXCL, _CREATE = 0x1, 0x4, 0x300, 0x200, 0x400
_ERROR, _DONE = 2, 3
_NEWLINK, _DELLINK, _GETLINK, _SETLINK, _NEWADDR, _NEWROUTE, _GETROUTE = 16, 17, 18, 19, 20, 24, 26
_ADDRESS, _IFNAME, _MTU, _MASTER, _PROTINFO, _LINKINFO, _NET_NS_FD = 1, 3, 4, 10, 12, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER, _BRPORT_HAIRPIN = 1, 2, 1, 4
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST = 1, 2, 4
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_UP = 1
_NESTED = 0x8000
_AF_BRIDGE = 7
_MAIN_TABLE, _PROTO_BOOT, _UNICAST = 254, 3, 1
LOOPBACK = 1
"""The index of the first link of every namespace."""
_Request = tuple[int, int, bytes]
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ROUTE = struct.Struct("=BBBBBBBBI")


class Link(Struct, frozen=True):
    index: int
    name: str
    mtu: int


class Route(Struct, frozen=True):
    network: IPv4Network
    link: int
    """Index of the outgoing link, 0 for a route without one."""


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + b"\0" * (-len(value) % 4)


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


class Netlink:
    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._number, self._unread = 0, b""

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    # --- links
    def links(self) -> list[Link]:
        return [_link(body) for body in self._ask(_GETLINK, _DUMP, _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0))]

    def find(self, name: str) -> Link | None:
        request = _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + _text(_IFNAME, name)
        try:
            return _link(next(self._ask(_GETLINK, 0, request)))
        except OSError:
            return None

    def add_bridge(self, name: str, mac: bytes, mtu: int) -> None:
        """Its MAC address is fixed: otherwise it would follow the ports and change whenever a pod is added or
        removed.
        """
        body = _LINK.pack(socket.AF_UNSPEC, 0, 0, _UP, _UP) + _text(_IFNAME, name)
        body += _attribute(_ADDRESS, mac) + _number(_MTU, mtu)
        self._do((_NEWLINK, _CREATE | _EXCL, body + _attribute(_LINKINFO | _NESTED, _text(_INFO_KIND, "bridge"))))

    def add_veth(self, name: str, bridge: int, mtu: int, peer: tuple[str, int], namespace: int, mac: bytes) -> None:
        """A veth pair: `name` here, up and a port of the bridge; `peer`, with its index, in the namespace of that
        descriptor."""
        other = _LINK.pack(socket.AF_UNSPEC, 0, peer[1], 0, 0) + _text(_IFNAME, peer[0])
        other += _number(_NET_NS_FD, namespace)
        other += _attribute(_ADDRESS, mac) + _number(_MTU, mtu)
        data = _attribute(_INFO_DATA | _NESTED, _attribute(_VETH_PEER | _NESTED, other))
        body = _LINK.pack(socket.AF_UNSPEC, 0, 0, _UP, _UP) + _text(_IFNAME, name) + _number(_MTU, mtu)
        body += _number(_MASTER, bridge)
        kind = _attribute(_LINKINFO | _NESTED, _text(_INFO_KIND, "veth") + data)
        self._do((_NEWLINK, _CREATE | _EXCL, body + kind))

    def set_hairpin(self, index: int) -> None:
        """The bridge may send a frame back out of this port, for a pod that reaches itself through its host port."""
        port = _attribute(_PROTINFO | _NESTED, _attribute(_BRPORT_HAIRPIN, b"\1"))
        self._do((_SETLINK, 0, _LINK.pack(_AF_BRIDGE, 0, index, 0, 0) + port))

    def set_up(self, index: int) -> None:
        self._do((_SETLINK, 0, _set_up(index)))

    def delete(self, index: int) -> None:
        self._do((_DELLINK, 0, _LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0)))

    # --- addresses and routes
    def add_address(self, index: int, address: IPv4Interface) -> None:
        self._do((_NEWADDR, _CREATE | _EXCL, _address(index, address)))

    def configure(self, index: int, address: IPv4Interface, gateway: IPv4Address) -> None:
        """Sets up a new namespace in one request: loopback and the link up, its address, the default route."""
        route = _ROUTE.pack(socket.AF_INET, 0, 0, 0, _MAIN_TABLE, _PROTO_BOOT, 0, _UNICAST, 0)
        self._do(
            (_SETLINK, 0, _set_up(LOOPBACK)),
            (_NEWADDR, _CREATE | _EXCL, _address(index, address)),
            (_SETLINK, 0, _set_up(index)),
            (_NEWROUTE, _CREATE | _EXCL, route + _attribute(_RTA_GATEWAY, gateway.packed)),
        )

    def routes(self) -> list[Route]:
        """Routes of all tables, including the addresses of this machine."""
        body = _ROUTE.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)
        return [_route(answer) for answer in self._ask(_GETROUTE, _DUMP, body)]

    def link_towards(self, address: IPv4Address) -> int:
        """Index of the link by which packets to the address leave."""
        body = _ROUTE.pack(socket.AF_INET, 32, 0, 0, 0, 0, 0, 0, 0) + _attribute(_RTA_DST, address.packed)
        return _route(next(self._ask(_GETROUTE, 0, body))).link

    # --- messages
    def _do(self, *requests: _Request) -> None:
        """Sends the messages in one system call. Raises OSError for the first one that fails."""
        self._send([(kind, flags | _ACK, body) for kind, flags, body in requests])
        for _ in requests:
            for _ in self._answers(self._number, False):
                pass

    def _ask(self, kind: int, flags: int, body: bytes) -> Iterator[bytes]:
        """Sends a request and returns the bodies of its responses. Raises OSError with the kernel's error."""
        self._send([(kind, flags, body)])
        return self._answers(self._number, bool(flags & _DUMP))

    def _send(self, requests: list[_Request]) -> None:
        self._number += 1
        self._socket.send(
            b"".join(
                _HEADER.pack(len(body) + 16, kind, flags | _REQUEST, self._number, 0) + body
                for kind, flags, body in requests
            )
        )

    def _answers(self, number: int, many: bool) -> Iterator[bytes]:
        """Reads until the end of one request's responses."""
        while True:
            if not self._unread:
                self._unread = self._socket.recv(1 << 16)
            length, kind, _, sequence, _ = _HEADER.unpack_from(self._unread)
            content, self._unread = self._unread[16:length], self._unread[(length + 3) & ~3 :]
            if sequence != number:
                continue
            if kind == _ERROR:
                code = -struct.unpack_from("=i", content)[0]
                if code:
                    raise OSError(code, os.strerror(code))
                return
            if kind == _DONE:
                return
            yield content
            if not many:
                return


def _set_up(index: int) -> bytes:
    return _LINK.pack(socket.AF_UNSPEC, 0, index, _UP, _UP)


def _address(index: int, address: IPv4Interface) -> bytes:
    body = struct.pack("=BBBBI", socket.AF_INET, address.network.prefixlen, 0, 0, index)
    body += _attribute(_IFA_LOCAL, address.ip.packed) + _attribute(_IFA_ADDRESS, address.ip.packed)
    return body + _attribute(_IFA_BROADCAST, address.network.broadcast_address.packed)


def _link(body: bytes) -> Link:
    _, _, index, _, _ = _LINK.unpack_from(body)
    found = _attributes(body[16:])
    return Link(index, found[_IFNAME].rstrip(b"\0").decode(), struct.unpack("=I", found.get(_MTU, b"\0" * 4))[0])


def _route(body: bytes) -> Route:
    found = _attributes(body[_ROUTE.size :])
    destination = IPv4Address(found.get(_RTA_DST, b"\0" * 4))
    return Route(IPv4Network((destination, body[1])), struct.unpack("=I", found.get(_RTA_OIF, b"\0" * 4))[0])
