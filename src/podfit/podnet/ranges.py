"""Chooses the range of addresses for a node's pods. Pure.

A Node's spec.podCIDR is used if there is one. Otherwise the range is derived from the node's name, so that nodes of one
machine (several clusters, tests in parallel) rarely start with the same one, and ranges that the machine already routes
are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError

from podfit.podnet.failures import NetworkFailure

POOL = IPv4Network("10.64.0.0/10")
PREFIX = 24
_SMALLEST = 30
"""A range needs a gateway and a pod in addition to the two reserved addresses."""


def parse(text: str) -> IPv4Network:
    try:
        network = IPv4Network(text, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError) as error:
        raise NetworkFailure(f"pod range {text!r} is not an IPv4 range: {error}") from error
    if network.prefixlen > _SMALLEST:
        raise NetworkFailure(f"pod range {text} has no room for a gateway and a pod: the smallest is a /{_SMALLEST}")
    return network


def choose(seed: int, routed: Iterable[IPv4Network]) -> IPv4Network:
    """The first range, starting at the seed's, that does not overlap any route; default routes, which overlap
    everything, are ignored."""
    used = [network for network in routed if network.prefixlen and network.overlaps(POOL)]
    count = 1 << (PREFIX - POOL.prefixlen)
    step = 1 << (32 - PREFIX)
    for offset in range(count):
        candidate = IPv4Network((int(POOL.network_address) + (seed + offset) % count * step, PREFIX))
        if not any(candidate.overlaps(network) for network in used):
            return candidate
    raise NetworkFailure(f"no free range for pods: every /{PREFIX} of {POOL} is routed already")


def seed_of(network: IPv4Network) -> int:
    """The seed whose first choice is this range."""
    return (int(network.network_address) - int(POOL.network_address)) >> (32 - PREFIX)


def gateway(network: IPv4Network) -> IPv4Address:
    return network.network_address + 1


def mac_of(address: IPv4Address) -> bytes:
    """The same address always has the same MAC: neighbours need not forget the one of an earlier pod."""
    return b"\x0a\x58" + address.packed
