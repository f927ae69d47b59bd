"""URLs, IP addresses and CIDRs in CEL expressions."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

_URL, _IP, _CIDR = "k8s.url", "k8s.ip", "k8s.cidr"


def _url(text: str) -> dict[str, Any]:
    if not _is_url(text):
        raise ValueError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    return {_URL: text}


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme and (parts.netloc or parts.path.startswith("/")))


def _host(value: Any) -> str:
    return str(urlsplit(value[_URL]).netloc).rpartition("@")[2]


def _hostname(value: Any) -> str:
    host = _host(value)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(value: Any) -> str:
    port = urlsplit(value[_URL]).port
    return "" if port is None else str(port)


def _parsed_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(text)
    if "%" in text or (found.version == 6 and found.ipv4_mapped is not None):
        raise ValueError(f"IP Address {text!r} is not allowed")
    return found


def _is(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return holds


def _parsed_cidr(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    if "/" not in text:
        raise ValueError(f"network address parse error during conversion from string: no '/' in {text!r}")
    return ipaddress.ip_interface(text)


def _ip(value: Any) -> dict[str, Any]:
    """From a string, or the address of a CIDR."""
    if isinstance(value, dict):
        return {_IP: str(_parsed_cidr(value[_CIDR]).ip)}
    return {_IP: str(_parsed_ip(value))}


def _address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return _parsed_ip(value[_IP] if isinstance(value, dict) else value)


def _contains_ip(cidr: Any, value: Any) -> bool:
    address, network = _address(value), _parsed_cidr(cidr[_CIDR]).network
    return address.version == network.version and address in network


def _contains_cidr(cidr: Any, value: Any) -> bool:
    inner = _parsed_cidr(value[_CIDR] if isinstance(value, dict) else value).network
    outer = _parsed_cidr(cidr[_CIDR]).network
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "url": _url,
    "isURL": _is_url,
    "getScheme": lambda value: urlsplit(value[_URL]).scheme,
    "getHost": _host,
    "getHostname": _hostname,
    "getPort": _port,
    "getEscapedPath": lambda value: quote(urlsplit(value[_URL]).path, safe="/%:@!$&'()*+,;=~"),
    "getQuery": lambda value: parse_qs(urlsplit(value[_URL]).query, keep_blank_values=True),
    "ip": _ip,
    "isIP": _is(_parsed_ip),
    "family": lambda value: _address(value).version,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isLinkLocalMulticast": lambda value: (
        _address(value).is_multicast and str(value[_IP]).startswith(("224.0.0.", "ff02"))
    ),
    "isGlobalUnicast": lambda value: (
        not (
            _address(value).is_unspecified
            or _address(value).is_loopback
            or _address(value).is_multicast
            or _address(value).is_link_local
        )
    ),
    "cidr": lambda text: {_CIDR: str(_parsed_cidr(text))},
    "isCIDR": _is(_parsed_cidr),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "masked": lambda value: {_CIDR: str(_parsed_cidr(value[_CIDR]).network)},
    "prefixLength": lambda value: _parsed_cidr(value[_CIDR]).network.prefixlen,
}
