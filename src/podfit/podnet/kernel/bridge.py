"""The node's own bridge: each pod's eth0 is one end of a veth pair, the other end a port of the bridge.

The bridge has the range's first address and is the pods' gateway. Names of links contain the node's mark, those of pods
also their address, which is unique on the node: nothing has to be looked up to remove leftovers of a crash.
"""

from __future__ import annotations

import errno
import os
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from podfit.podnet import ranges
from podfit.podnet.failures import NetworkFailure
from podfit.podnet.kernel import forwarding, namespaces
from podfit.podnet.kernel.firewall import BRIDGE_PREFIX
from podfit.podnet.kernel.netlink import Link, Netlink
from podfit.podnet.leases import Leases

_MTU = 1500
_INDEXES = (2, 1000)


class Bridge:
    def __init__(self, mark: str, folder: Path, wanted: str = "") -> None:
        """`wanted`: the range to use; otherwise a free one is chosen, once."""
        self.name = BRIDGE_PREFIX + mark
        self._mark, self._folder = mark, folder
        self.wanted = wanted
        self._link: Link | None = None
        self.leases: Leases | None = None

    # These methods block: callers run them in a thread.

    def open(self) -> IPv4Network:
        """Creates the bridge if it does not exist. Under a lock, so that two podfits do not choose the same range."""
        with Netlink() as net, forwarding.shared():
            network = self._range(net)
            found = net.find(self.name)
            if found is None:
                address = ranges.gateway(network)
                net.add_bridge(self.name, ranges.mac_of(address), _usual_mtu(net))
                found = net.find(self.name)
                assert found is not None
                net.add_address(found.index, IPv4Interface((address, network.prefixlen)))
            self._link = found
        if self.leases is None or self.leases.network != network:
            self.leases = Leases(self._folder / "leases", network)
        forwarding.turn_on(self._mark, self._folder)
        return network

    def close(self) -> None:
        """Removes the bridge, remaining links of pods, and changed kernel parameters."""
        with Netlink() as net:
            self._remove_links(net)
        forwarding.release(self._mark)
        (self._folder / "range").unlink(missing_ok=True)
        self._link = self.leases = None

    def _remove_links(self, net: Netlink) -> None:
        for link in net.links():
            if link.name == self.name or link.name.startswith(self._prefix):
                _delete(net, link.name)

    def connect(self, address: IPv4Address, namespace: Path, hairpin: bool) -> str:
        """Connects a pod in a new namespace, into which it moves the calling thread. Returns the pod's link on the
        host. `hairpin`: the pod may reach itself by a host port."""
        assert self.leases is not None and self._link is not None
        link, network = self._link_of(address), self.leases.network
        with Netlink() as here:
            descriptor = namespaces.create(namespace)
            try:
                index = self._add_pair(here, link, descriptor, ranges.mac_of(address))
            finally:
                os.close(descriptor)
            if hairpin and (made := here.find(link)) is not None:
                here.set_hairpin(made.index)
        with Netlink() as inside:
            inside.configure(index, IPv4Interface((address, network.prefixlen)), ranges.gateway(network))
        return link

    def _add_pair(self, here: Netlink, link: str, namespace: int, mac: bytes) -> int:
        """Creates the veth pair and returns the index of the pod's eth0: the second link of its namespace, unless
        kernel modules have added links to every namespace."""
        assert self._link is not None
        first, other = _INDEXES
        try:
            here.add_veth(link, self._link.index, self._link.mtu, ("eth0", first), namespace, mac)
            return first
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EEXIST):
                raise
        _delete(here, link)  # exists only if a pod had the address before a crash
        here.add_veth(link, self._link.index, self._link.mtu, ("eth0", other), namespace, mac)
        return other

    def disconnect(self, uid: str) -> None:
        leases = self.leases or self._kept_leases()
        address = leases.held().get(uid) if leases is not None else None
        if leases is not None and address is not None:
            with Netlink() as net:
                _delete(net, self._link_of(address))
            leases.release(uid)

    def _kept_leases(self) -> Leases | None:
        """The leases that an earlier podfit process has left, for a process that has not opened the bridge itself."""
        known = self._known_range()
        return Leases(self._folder / "leases", known) if known is not None else None

    def _link_of(self, address: IPv4Address) -> str:
        return f"{self._prefix}{int(address) & 0xFFFF:04x}"

    @property
    def _prefix(self) -> str:
        return f"pf{self._mark}-"

    def _range(self, net: Netlink) -> IPv4Network:
        """The range to use: the current one as long as a pod has an address in it; then the wanted one, or the previous
        one unless another program routes it by now. A bridge with another range is removed."""
        known = self._known_range()
        there = net.find(self.name) is not None
        if there and known is not None and (not self.wanted or Leases(self._folder / "leases", known).held()):
            return known
        if there:
            self._remove_links(net)
        routed = [route.network for route in net.routes()]
        seed = ranges.seed_of(known) if known is not None else int(self._mark, 16)
        chosen = ranges.parse(self.wanted) if self.wanted else ranges.choose(seed, routed)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / "range").write_text(str(chosen))
        return chosen

    def _known_range(self) -> IPv4Network | None:
        try:
            return ranges.parse((self._folder / "range").read_text())
        except (OSError, NetworkFailure):
            return None


def _delete(net: Netlink, name: str) -> None:
    found = net.find(name)
    if found is not None:
        try:
            net.delete(found.index)
        except OSError:
            if net.find(name) is not None:  # otherwise it was removed with its namespace
                raise


def _usual_mtu(net: Netlink) -> int:
    """The MTU of the outgoing link: a packet that fits the pod's link has to fit that one as well."""
    outward = next((route.link for route in net.routes() if route.network.prefixlen == 0 and route.link), 0)
    return next((link.mtu for link in net.links() if link.index == outward), _MTU)
