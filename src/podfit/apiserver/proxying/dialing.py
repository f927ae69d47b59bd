"""Connections to other servers: where they may lead, that they stay there, and why one failed, in Go's words.

Whoever names an address (a node in its status, a pod's address, a client that picks a port) must not be able to point
the API server at what only it can reach: link-local addresses hold a cloud's credentials, loopback its own machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import aiohttp

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_BROADCAST = ipaddress.ip_address("255.255.255.255")


class NotAllowed(Exception):
    """The address is none that a proxy may connect to."""


class Redirected(aiohttp.ClientError):
    """The other side answered an upgrade with a redirect, which is never followed: it would lead our credentials to a
    place of its choice."""


AS_ASKED = ("Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that a client of ours would make up, and that a proxy passes on or leaves out."""


def no_redirects() -> aiohttp.TraceConfig:
    """For sessions: aiohttp follows redirects of WebSocket handshakes and has no option against it."""

    async def refuse(_: object, __: object, what: aiohttp.TraceRequestRedirectParams) -> None:
        what.response.close()
        raise Redirected(f"invalid upgrade response: status code {what.response.status}")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    return trace


async def allowed_address(host: str, loopback: bool) -> str:
    """The address to connect to. A name is resolved here and once: resolved again later it could be another one."""
    found = parsed(host)
    if found is None:
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            # A name that is none, with parts that are too long say, is not even looked for.
            raise NotAllowed(f"lookup {host}: no such host") from None
        every = [address for row in rows if (address := parsed(str(row[4][0]))) is not None]
    else:
        every = [found]
    if not every or not all(is_ordinary(address, loopback) for address in every):
        raise NotAllowed("address not allowed")
    return str(every[0])


def parsed(text: str) -> Address | None:
    """An address, IPv4 ones within IPv6 as what they stand for."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_ordinary(address: Address, loopback: bool) -> bool:
    if address.is_loopback:
        return loopback
    special = address.is_unspecified or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def why_not(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, TimeoutError):
        return "context deadline exceeded"
    return str(error) or type(error).__name__
