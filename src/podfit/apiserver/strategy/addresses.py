"""IP addresses and CIDRs as Kubernetes 1.36 checks them: no leading zeros, no IPv4 in IPv6, no bits past the prefix."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from podfit.api.objects import Object
from podfit.api.status import duplicate, go_quote, invalid, not_supported
from podfit.api.text.formats import fits
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.checks import parse_ip

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
FAMILIES = ("IPv4", "IPv6")
FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def strict_ip(text: str, path: str, errors: Errors, known: Collection[str] = ()) -> _Address | None:
    """Checks fields that once accepted any notation: stored values (`known`) remain valid."""
    address = parse_ip(text)
    if address is None:
        errors.append(invalid(path, text, _NO_IP))
    elif text not in known:
        if _zeros(text.partition("%")[0]):
            errors.append(invalid(path, text, "must not have leading 0s"))
        elif _mapped(address):
            errors.append(invalid(path, text, "must not be an IPv4-mapped IPv6 address"))
    return address


def canonical_ip(text: str, path: str, errors: Errors) -> _Address | None:
    """Checks fields that accept only the canonical notation."""
    found: Errors = []
    address = strict_ip(text, path, found)
    if not found and address is not None and str(address) != text:
        found.append(invalid(path, text, f"must be in canonical form ({go_quote(str(address))})"))
    errors += found
    return None if found else address


def strict_cidr(text: str, path: str, errors: Errors, known: Collection[str] = ()) -> _Network | None:
    network = parse_cidr(text)
    if network is None:
        errors.append(invalid(path, text, _NO_CIDR))
        return None
    head, _, bits = text.partition("/")
    address = parse_ip(head)
    if text not in known and address is not None:
        if _zeros(head) or (len(bits) > 1 and bits.startswith("0")):
            errors.append(invalid(path, text, "must not have leading 0s in IP or prefix length"))
        elif _mapped(address):
            errors.append(invalid(path, text, "must not have an IPv4-mapped IPv6 address"))
        elif network.network_address != address:
            errors.append(invalid(path, text, "must not have bits set beyond the prefix length"))
    return network


def canonical_cidr(text: str, path: str, errors: Errors) -> _Network | None:
    found: Errors = []
    network = strict_cidr(text, path, found)
    if not found and network is not None and str(network) != text:
        found.append(invalid(path, text, f"must be in canonical form ({go_quote(str(network))})"))
    errors += found
    return None if found else network


def parse_cidr(text: str) -> _Network | None:
    head, slash, bits = text.partition("/")
    address = parse_ip(head)
    if address is None or not slash or not fits(bits, address.max_prefixlen):
        return None
    return ipaddress.ip_network((address, int(bits)), strict=False)


def ip_warnings(text: str, path: str) -> list[str]:
    address = parse_ip(text)
    if address is None:
        return []
    if _zeros(text) or _mapped(address):
        plain = _mapped(address) or address
        return [f"{path}: non-standard IP address {go_quote(text)} is invalid: use {go_quote(str(plain))}"]
    if address.version == 6 and str(address) != text:
        shown = go_quote(str(address))
        return [f"{path}: IPv6 address {go_quote(text)} should be in RFC 5952 canonical format ({shown})"]
    return []


def cidr_warnings(text: str, path: str) -> list[str]:
    network, address = parse_cidr(text), parse_ip(text.partition("/")[0])
    if network is None or address is None:
        return []
    found: list[str] = []
    if network.network_address != address:
        single = go_quote(f"{address}/{address.max_prefixlen}")
        hint = f"(should be {go_quote(str(network))} or {single}?)"
        found.append(f"{path}: CIDR value {go_quote(text)} is ambiguous in this context {hint}")
    bits = text.partition("/")[2]
    if _zeros(text.partition("/")[0]) or (len(bits) > 1 and bits.startswith("0")) or _mapped(address):
        found.append(f"{path}: non-standard CIDR value {go_quote(text)} is invalid: use {go_quote(str(network))}")
    if not found and address.version == 6 and str(network) != text:
        shown = go_quote(str(network))
        found.append(f"{path}: IPv6 CIDR value {go_quote(text)} should be in RFC 5952 canonical format ({shown})")
    return found


def endpoint_ip(text: str, path: str, errors: Errors) -> None:
    """Rejects addresses to which a Service may not send traffic."""
    address = parse_ip(text)
    if address is None:
        errors.append(invalid(path, text, "must be a valid IP address"))
        return
    if address.is_unspecified:
        errors.append(invalid(path, text, f"may not be unspecified ({text})"))
    if address.is_loopback:
        errors.append(invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if address.is_link_local:
        errors.append(invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if _link_local_multicast(address):
        errors.append(invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))


def _link_local_multicast(address: _Address) -> bool:
    if address.version == 4:
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _zeros(text: str) -> bool:
    """Whether a decimal part of an IPv4 address has a leading zero."""
    dotted = text.rpartition(":")[2]
    return "." in dotted and any(len(part) > 1 and part.startswith("0") for part in dotted.split("."))


def _mapped(address: _Address) -> ipaddress.IPv4Address | None:
    return address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None


def address_errors(spec: Object) -> Errors:
    """Errors in clusterIPs, ipFamilies and ipFamilyPolicy of a Service, before any is allocated."""
    several, families, policy = spec.get("clusterIPs") or [], spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    path = "spec.clusterIPs"
    errors: Errors = []
    if several and not spec.get("clusterIP"):
        errors.append(invalid(path, several, "must be empty when `clusterIP` is not specified"))
    elif several and several[0] != spec["clusterIP"]:
        errors.append(invalid(path, several, "first value must match `clusterIP`"))
    for at, family in enumerate(families):
        if family not in FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{at}]", family, FAMILIES))
        if family in families[:at]:
            errors.append(duplicate(f"spec.ipFamilies[{at}]", family))
    if policy is not None and policy not in FAMILY_POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, FAMILY_POLICIES))
    wrong: Errors = []
    for at, text in enumerate(several):
        if at or text != "None":
            strict_ip(text, f"{path}[{at}]", wrong)
        elif len(several) > 1:
            wrong.append(invalid(path, several, "'None' must be the first and only value"))
    errors += wrong
    if len(several) > 2:
        errors.append(invalid(path, several, "may only hold up to 2 values"))
    return errors if wrong else errors + _family_errors(several, families)


def _family_errors(several: list[str], families: list[str]) -> Errors:
    """Checks valid addresses against each other and against the families."""
    errors: Errors = []
    if several and several[0] == "None":
        return errors
    found = ["IPv6" if ":" in text else "IPv4" for text in several]
    if len(found) > 1 and set(found) != set(FAMILIES):
        detail = "may specify no more than one IP for each IP family"
        errors.append(invalid("spec.clusterIPs", several, detail))
    for at, (text, mine, family) in enumerate(zip(several, found, families, strict=False)):
        if family in FAMILIES and family != mine:
            detail = f"expected an {family} value as indicated by `ipFamilies[{at}]`"
            errors.append(invalid(f"spec.clusterIPs[{at}]", text, detail))
    return errors
