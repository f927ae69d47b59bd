"""Restricts the outgoing connections of proxies to allowed addresses without redirects, and words errors like Go.

Addresses come from untrusted sources: the status of nodes and pods, and ports that clients choose. They must not direct
the API server to targets that only it can reach: link-local addresses serve a cloud's credentials, and loopback is its
own machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import aiohttp

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_BROADCAST = ipaddress.ip_address("255.255.255.255")


class NotAllowed(Exception):
    """An address to which a proxy may not connect."""


class Redirected(aiohttp.ClientError):
    """The target responded to an upgrade with a redirect. Redirects are never followed: the target could direct the
    API server's credentials to any address."""


AS_ASKED = ("Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that our HTTP client would add, and that a proxy forwards or omits."""


def no_redirects() -> aiohttp.TraceConfig:
    """A trace configuration for sessions: aiohttp follows redirects of WebSocket handshakes, without an option to
    disable that."""

    async def refuse(_: object, __: object, what: aiohttp.TraceRequestRedirectParams) -> None:
        what.response.close()
        raise Redirected(f"invalid upgrade response: status code {what.response.status}")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    return trace


async def allowed_address(host: str, loopback: bool) -> str:
    """The address to connect to. Names are resolved here, once: a second resolution could return another address."""
    found = parsed(host)
    if found is None:
        try:
            rows = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            # An invalid name, with labels that are too long for example, is not even resolved.
            raise NotAllowed(f"lookup {host}: no such host") from None
        every = [address for row in rows if (address := parsed(str(row[4][0]))) is not None]
    else:
        every = [found]
    if not every or not all(is_ordinary(address, loopback) for address in every):
        raise NotAllowed("address not allowed")
    return str(every[0])


def parsed(text: str) -> Address | None:
    """Parses an address; IPv4-mapped IPv6 addresses are converted to IPv4."""
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
