"""Service addresses redirected to the host, for pods whose network a container runtime sets up with CNI.

A table of its own, with the links on which those pods' packets arrive. Nothing is created while no address is
redirected.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from ipaddress import IPv4Address

from podfit.podnet.failures import NetworkFailure
from podfit.podnet.kernel.firewall import Firewall, find_nft
from podfit.podnet.kernel.namespaces import in_thread
from podfit.podnet.kernel.netlink import Netlink

log = logging.getLogger(__name__)


class Redirects:
    def __init__(self, owner: str) -> None:
        """`owner`: the name of the table, which belongs to this owner only."""
        self._firewall = Firewall(re.sub(r"\W", "_", owner))
        self._turn = asyncio.Lock()

    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        """TCP connections from followed pods to `address`:`port` reach `target`:`target_port` of the node. Raises
        NetworkFailure."""
        await in_thread(lambda: self._firewall.redirect(address, port, target, target_port))

    async def follow(self, ips: Iterable[str]) -> None:
        """Adds a link of a pod. If that fails, pods run nevertheless and cannot reach the redirected addresses."""
        own = next((ip for ip in ips if ":" not in ip), "")
        if not own or not self._firewall.services:
            return
        async with self._turn:
            try:
                await in_thread(lambda: self._follow(IPv4Address(own)))
            except (NetworkFailure, OSError, ValueError) as error:
                log.warning("pods cannot reach %s: %s", next(iter(self._firewall.services))[0], error)

    def _follow(self, ip: IPv4Address) -> None:
        with Netlink() as net:
            index = net.link_towards(ip)
            name = next((link.name for link in net.links() if link.index == index), "")
        if not self._firewall.is_open:
            self._firewall.open()
        if name and name != "lo":
            self._firewall.add_link(name)

    async def purge(self) -> None:
        if find_nft():
            await in_thread(self._firewall.close)
