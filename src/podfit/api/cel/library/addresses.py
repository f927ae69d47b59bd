"""URLs, IP addresses and CIDRs."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from podfit.api.cel.library.functions import Library
from podfit.api.cel.values import Failed, Opaque

LIBRARY = Library()
_add = LIBRARY.add
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r":[0-9]*", re.ASCII)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Url(Opaque):
    __slots__ = ("parts", "text")
    type_name = "kubernetes.URL"

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: SplitResult = urlsplit(text)

    def same(self, other: Any) -> bool:
        return isinstance(other, Url) and self.text == other.text

    @property
    def host(self) -> str:
        return self.parts.netloc.rpartition("@")[2]


def url_problem(text: str) -> str:
    """The error in the URL of a request (an absolute URL or path); empty if it is valid."""
    shown = json.dumps(text, ensure_ascii=False)
    if not text:
        return 'parse "": empty url'
    if _CONTROL.search(text):
        return f"parse {shown}: net/url: invalid control character in URL"
    found = _SCHEME.fullmatch(text)
    if text.startswith(":"):
        return f"parse {shown}: missing protocol scheme"
    rest = found[2] if found else text
    if not rest.startswith("/"):
        return "" if found else f"parse {shown}: invalid URI for request"
    if (escape := _BAD_ESCAPE.search(text)) is not None:
        return f"parse {shown}: invalid URL escape {json.dumps(escape[0])}"
    return _host_problem(rest, shown) if found and rest.startswith("//") else ""


def _host_problem(rest: str, shown: str) -> str:
    host = re.split(r"[/?#]", rest[2:], maxsplit=1)[0].rpartition("@")[2]
    after = host
    if host.startswith("["):
        closed = host.rfind("]")
        if closed < 0:
            return f"parse {shown}: missing ']' in host"
        after = host[closed + 1 :]
    elif ":" in host:
        after = host[host.rfind(":") :]
    else:
        after = ""
    if after and not _PORT.fullmatch(after):
        return f"parse {shown}: invalid port {json.dumps(after)} after host"
    if (bad := re.search(r'[ "<>\\^`{|}]', host)) is not None:
        return f"parse {shown}: invalid character {json.dumps(bad[0])} in host name"
    return ""


def _url(text: str) -> Url:
    if problem := url_problem(text):
        raise Failed(f"URL parse error during conversion from string: {problem}")
    try:
        return Url(text)
    except ValueError as error:
        raise Failed(f"URL parse error during conversion from string: parse {json.dumps(text)}: {error}") from None


def _hostname(value: Url) -> str:
    host = value.host
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(value: Url) -> str:
    host = value.host
    return (host.rpartition("]")[2] if "]" in host else host).partition(":")[2]


def _urls() -> None:
    _add("url", "string_to_url", "(string) URL", _url)
    _add("isURL", "is_url_string", "(string) bool", lambda text: not url_problem(text))
    _add("getScheme", "url_get_scheme", "URL.() string", lambda value: value.parts.scheme)
    _add("getHost", "url_get_host", "URL.() string", lambda value: value.host)
    _add("getHostname", "url_get_hostname", "URL.() string", _hostname)
    _add("getPort", "url_get_port", "URL.() string", _port)
    path = lambda value: quote(value.parts.path, safe="/%:@!$&'()*+,;=~")  # noqa: E731
    _add("getEscapedPath", "url_get_escaped_path", "URL.() string", path)
    query = lambda value: parse_qs(value.parts.query, keep_blank_values=True)  # noqa: E731
    _add("getQuery", "url_get_query", "URL.() map(string, list(string))", query)


class Ip(Opaque):
    __slots__ = ("address",)
    type_name = "net.IP"

    def __init__(self, address: _Address) -> None:
        self.address = address

    def __len__(self) -> int:
        return 4 if self.address.version == 4 else 16

    def same(self, other: Any) -> bool:
        return isinstance(other, Ip) and self.address == other.address


class Cidr(Opaque):
    __slots__ = ("address", "bits")
    type_name = "net.CIDR"

    def __init__(self, address: _Address, bits: int) -> None:
        self.address, self.bits = address, bits

    def __len__(self) -> int:
        return -(-self.bits // 8)

    @property
    def network(self) -> Any:
        return ipaddress.ip_network((self.address, self.bits), strict=False)

    def same(self, other: Any) -> bool:
        return isinstance(other, Cidr) and (self.address, self.bits) == (other.address, other.bits)


def _ip_problem(text: str) -> str:
    """Go's error for an address that it cannot parse."""
    fields = text.split(".")
    if len(fields) < 2 or any(not field.isascii() or not field.isdigit() for field in fields):
        return "unable to parse IP"
    for field in fields:
        if len(field) > 1 and field[0] == "0":
            return "IPv4 field has octet with leading zero"
        if len(field) > 3 or int(field) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"


def _parsed_ip(text: str) -> _Address:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        shown = json.dumps(text, ensure_ascii=False)
        why = f"ParseAddr({shown}): {_ip_problem(text)}"
        raise Failed(f"IP Address {shown} parse error during conversion from string: {why}") from None
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None:
            raise Failed(f'IP address "{text}" with zone value is not allowed')
        if found.ipv4_mapped is not None:
            raise Failed(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


def _cidr(text: str) -> Cidr:
    prefix = "network address parse error during conversion from string: "
    shown = json.dumps(text, ensure_ascii=False)
    address, slash, bits = text.rpartition("/")
    if not slash:
        raise Failed(f"{prefix}{prefix}netip.ParsePrefix({shown}): no '/'")
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        why = f'ParseAddr("{address}"): unable to parse IP'
        raise Failed(f"{prefix}{prefix}netip.ParsePrefix({shown}): {why}") from None
    if not bits.isascii() or not bits.isdigit() or (len(bits) > 1 and bits[0] == "0"):
        raise Failed(f'{prefix}{prefix}netip.ParsePrefix({shown}): bad bits after slash: "{bits}"')
    if len(bits) > 3 or int(bits) > found.max_prefixlen:
        raise Failed(f"{prefix}{prefix}netip.ParsePrefix({shown}): prefix length out of range")
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise Failed(f"{prefix}IPv4-mapped IPv6 address {shown} is not allowed")
    return Cidr(found, int(bits))


def _is(parse: Any) -> Any:
    def holds(text: str) -> bool:
        try:
            parse(text)
        except Failed:
            return False
        return True

    return holds


def _contains_ip(cidr: Cidr, value: Any) -> bool:
    address = _parsed_ip(value) if isinstance(value, str) else value.address
    return bool(address.version == cidr.address.version and address in cidr.network)


def _contains_cidr(cidr: Cidr, value: Any) -> bool:
    inner = _cidr(value) if isinstance(value, str) else value
    if inner.address.version != cidr.address.version:
        return False
    return bool(inner.bits >= cidr.bits and inner.address in cidr.network)


def _global(value: Ip) -> bool:
    address = value.address
    broadcast = address.version == 4 and int(address) == 0xFFFFFFFF
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and not broadcast


_LOCAL_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def _local_multicast(value: Ip) -> bool:
    address = value.address
    if isinstance(address, ipaddress.IPv6Address):
        return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 2
    return address in _LOCAL_MULTICAST[0]


def _addresses() -> None:
    _add("ip", "string_to_ip", "(string) IP", lambda text: Ip(_parsed_ip(text)))
    _add("ip", "cidr_ip", "CIDR.() IP", lambda value: Ip(value.address))
    _add("isIP", "is_ip", "(string) bool", _is(_parsed_ip))
    _add("ip.isCanonical", "ip_is_canonical", "(string) bool", lambda text: str(_parsed_ip(text)) == text)
    _add("family", "ip_family", "IP.() int", lambda value: value.address.version)
    _add("isUnspecified", "ip_is_unspecified", "IP.() bool", lambda value: value.address.is_unspecified)
    _add("isLoopback", "ip_is_loopback", "IP.() bool", lambda value: value.address.is_loopback)
    _add("isLinkLocalMulticast", "ip_is_link_local_multicast", "IP.() bool", _local_multicast)
    _add("isLinkLocalUnicast", "ip_is_link_local_unicast", "IP.() bool", lambda value: value.address.is_link_local)
    _add("isGlobalUnicast", "ip_is_global_unicast", "IP.() bool", _global)
    _add("string", "ip_to_string", "(IP) string", lambda value: str(value.address))
    _add("cidr", "string_to_cidr", "(string) CIDR", _cidr)
    _add("isCIDR", "is_cidr", "(string) bool", _is(_cidr))
    _add("containsIP", "cidr_contains_ip_string", "CIDR.(string) bool", _contains_ip)
    _add("containsIP", "cidr_contains_ip_ip", "CIDR.(IP) bool", _contains_ip)
    _add("containsCIDR", "cidr_contains_cidr_string", "CIDR.(string) bool", _contains_cidr)
    _add("containsCIDR", "cidr_contains_cidr", "CIDR.(CIDR) bool", _contains_cidr)
    masked = lambda value: Cidr(value.network.network_address, value.bits)  # noqa: E731
    _add("masked", "cidr_masked", "CIDR.() CIDR", masked)
    _add("prefixLength", "cidr_prefix_length", "CIDR.() int", lambda value: value.bits)
    _add("string", "cidr_to_string", "(CIDR) string", lambda value: f"{value.address}/{value.bits}")


_urls()
_addresses()
