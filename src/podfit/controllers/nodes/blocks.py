"""The parts of the cluster's pod range per node: equal blocks of one network, allocated in turn. Pure.

If a node has a range that is not a block (written by hand, or by a controller with another mask), all blocks that it
overlaps are in use.
"""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv4Network, IPv6Network, ip_network

from msgspec import Struct

Network = IPv4Network | IPv6Network
USUAL_MASK = {4: 24, 6: 64}
MOST_BITS = 16
"""A range has at most 2^16 blocks."""


class BadRange(ValueError):
    """Invalid settings; the message names them and the reason."""


class Blocks:
    def __init__(self, network: Network, mask: int) -> None:
        if not network.prefixlen <= mask <= network.max_prefixlen:
            raise BadRange(f"the node mask /{mask} does not fit into {network}")
        if mask - network.prefixlen > MOST_BITS:
            raise BadRange(
                f"{network} has more than {1 << MOST_BITS} blocks of /{mask}: choose a smaller range or mask"
            )
        self.network, self._mask = network, mask
        self._count = 1 << (mask - network.prefixlen)
        self._step = 1 << (network.max_prefixlen - mask)
        self._used: Counter[int] = Counter()
        self._next = 0

    def take(self) -> str | None:
        """The next free block, which is in use from now on; None if there is none."""
        for offset in range(self._count):
            index = (self._next + offset) % self._count
            if not self._used[index]:
                self._next = (index + 1) % self._count
                self._used[index] += 1
                return str(self._block(index))
        return None

    def occupy(self, text: str) -> None:
        self._used.update(self._overlapping(text))

    def release(self, text: str) -> None:
        self._used.subtract(self._overlapping(text))

    def _block(self, index: int) -> Network:
        return type(self.network)((int(self.network.network_address) + index * self._step, self._mask))

    def _overlapping(self, text: str) -> range:
        try:
            other = ip_network(text, strict=False)
        except ValueError:
            return range(0)
        if other.version != self.network.version or not other.overlaps(self.network):  # type: ignore[arg-type]
            return range(0)
        first = max(int(other.network_address), int(self.network.network_address))
        last = min(int(other.broadcast_address), int(self.network.broadcast_address))
        start = int(self.network.network_address)
        return range((first - start) // self._step, (last - start) // self._step + 1)


class PodRanges(Struct, frozen=True):
    """The settings, as in the flags of kube-controller-manager. A mask of 0 means the default."""

    cluster_cidr: str = ""
    mask: int = 0
    mask_ipv4: int = 0
    mask_ipv6: int = 0


def blocks_of(settings: PodRanges) -> tuple[Blocks, ...]:
    """The blocks of each range, of which there are up to two of different IP families. Raises BadRange."""
    if not settings.cluster_cidr:
        return ()
    mask = settings.mask
    try:
        networks = [ip_network(text.strip()) for text in settings.cluster_cidr.split(",")]
    except ValueError as error:
        raise BadRange(str(error)) from error
    if len(networks) > 2 or len({network.version for network in networks}) != len(networks):
        raise BadRange("at most one IPv4 and one IPv6 range can be given")
    if mask and (len(networks) > 1 or settings.mask_ipv4 or settings.mask_ipv6):
        raise BadRange("--node-cidr-mask-size is for clusters with one range, and goes with no mask of a family")
    masks = {4: settings.mask_ipv4, 6: settings.mask_ipv6}
    return tuple(Blocks(block, mask or masks[block.version] or USUAL_MASK[block.version]) for block in networks)
