"""Sets up the network of VM pods: an address in the pod network, QEMU's own user network, or none.

A pod with an address has a network namespace like that of a container pod. In it a bridge joins the pod's link with the
guest's tap device, and the guest takes over the link's address and MAC: other hosts reach it like a container. The
guest learns its address by DHCP, or from its kernel command line.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from podfit.cri import api_pb2 as cri
from podfit.podnet.attachment import PodRequest
from podfit.podnet.failures import NetworkFailure
from podfit.podnet.kernel import namespaces
from podfit.podnet.network import AUTO, MODES, NetworkSettings, PodNetwork
from podfit.podnet.ports import PortMapping
from podfit.streaming.ends import ByteStream, StreamFailure
from podfit.vm.machines.definition import NO_NETWORK, TAP, USER_NETWORK, Network
from podfit.vm.reach import links
from podfit.vm.reach.dhcp import DhcpServer, Lease, Names
from podfit.vm.records import Sandbox

log = logging.getLogger(__name__)
NONE, USER = "none", "user"
CONNECT_S = 5.0
_PROTOCOLS = {cri.Protocol.TCP: "TCP", cri.Protocol.UDP: "UDP", cri.Protocol.SCTP: "SCTP"}


def mac_of(sandbox: Sandbox) -> str:
    """A locally administered address that stays the same for the pod."""
    digits = sandbox.id[:10]
    return "52:" + ":".join(digits[at : at + 2] for at in range(0, 10, 2))


class Networks:
    def __init__(self, folder: Path, mode: str = AUTO, outside: Callable[[], Path | None] = lambda: None) -> None:
        """`outside`: the network namespace of the libvirt daemon; None if libvirt runs in this process."""
        self._mode, self._outside = mode, outside
        mark = hashlib.sha256(f"vm {folder.absolute()}".encode()).hexdigest()[:8]
        settings = NetworkSettings(mode if mode in MODES else AUTO)
        self._pods = PodNetwork(folder.absolute(), mark, settings) if mode not in (NONE, USER) else None
        self._servers: dict[str, DhcpServer] = {}
        self._pending: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._connected: dict[str, str] = {}
        """The sandbox that was connected last, by the pod's UID."""

    async def open(self, sandboxes: list[Sandbox]) -> None:
        """Opens the network. Connected pods stay connected. Networks that an earlier process set up for a pod that
        never became ready are removed."""
        if self._pods is None:
            return
        await self._pods.open()
        ready = [known for known in sandboxes if known.ready]
        await self._remove_leftovers({listed.config.metadata.uid for listed in ready})
        for sandbox in ready:
            if sandbox.lease is not None:
                await self._serve(sandbox)

    async def _remove_leftovers(self, wanted: set[str]) -> None:
        assert self._pods is not None
        for uid in {attachment.request.uid for attachment in self._pods.all()} - wanted:
            log.info("the network of pod %s is orphaned and will be removed", uid)
            await self._disconnect(self._pods, uid)

    async def _disconnect(self, pods: PodNetwork, uid: str) -> None:
        try:
            await self._remove_tap(uid)
            await pods.disconnect(uid)
        except (NetworkFailure, OSError) as error:
            # The network's folder still names it: the next start tries again.
            log.warning("the network of pod %s: %s", uid, error)

    async def close(self) -> None:
        """Networks being set up for an interrupted call are removed first."""
        while self._pending:
            await asyncio.wait(self._pending)
        for server in self._servers.values():
            await server.close()
        if self._pods is not None:
            await self._pods.close()

    async def connect(self, sandbox: Sandbox) -> None:
        """Gives the pod an address, if there is a network. Raises NetworkFailure. A cancelled caller leaves nothing
        behind: the steps are finished, and then undone."""
        work = self._begin(self._connect(sandbox))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._begin(self._take_back(sandbox, work))
            raise

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task

    async def _take_back(self, sandbox: Sandbox, work: asyncio.Task[None]) -> None:
        await asyncio.wait({work})
        uid = sandbox.config.metadata.uid
        async with self.turn(uid):
            await self._stop_serving(sandbox)
            # A caller that retried meanwhile has connected the pod itself.
            if self._pods is not None and self._connected.get(uid) == sandbox.id:
                await self._disconnect(self._pods, uid)

    def turn(self, uid: str) -> asyncio.Lock:
        """A lock that is held while this pod is being connected."""
        return self._turns.setdefault(uid, asyncio.Lock())

    async def _connect(self, sandbox: Sandbox) -> None:
        if self._pods is None:
            return
        metadata = sandbox.config.metadata
        self._connected[metadata.uid] = sandbox.id
        ports = tuple(_port(mapping) for mapping in sandbox.config.port_mappings if mapping.host_port)
        request = PodRequest(metadata.uid, metadata.namespace, metadata.name, ports, dict(sandbox.config.annotations))
        found = await self._pods.connect(request)
        if found is None:
            return
        try:
            sandbox.namespace, sandbox.address = found.namespace, found.ips[0]
            sandbox.lease = await links.bridged(Path(sandbox.namespace), mac_of(sandbox))
            if self._outside() is None:
                await links.add_tap(Path(sandbox.namespace), links.TAP)
                await links.join_tap(Path(sandbox.namespace), links.TAP, sandbox.lease.mtu)
            await self._serve(sandbox)
        except (OSError, ValueError, KeyError, IndexError, StopIteration) as error:
            await self._stop_serving(sandbox)
            await self._disconnect(self._pods, metadata.uid)
            raise NetworkFailure(f"cannot connect the VM to the pod's network: {error}") from error

    async def _serve(self, sandbox: Sandbox) -> None:
        assert sandbox.lease is not None
        if sandbox.id not in self._servers and namespaces.exists(Path(sandbox.namespace)):
            dns = sandbox.config.dns_config
            names = Names(sandbox.config.hostname, tuple(dns.servers), tuple(dns.searches))
            server = DhcpServer(Path(sandbox.namespace), links.BRIDGE, sandbox.lease, names)
            await server.start()
            self._servers[sandbox.id] = server

    # --- the guest's tap device
    def _tap(self, sandbox: Sandbox) -> str:
        return links.TAP if self._outside() is None else links.tap_of(sandbox.config.metadata.uid)

    async def before_start(self, sandbox: Sandbox) -> None:
        """A libvirt daemon starts QEMU in its own network namespace: QEMU opens the tap device there."""
        outside = self._outside()
        if outside is None or sandbox.lease is None:
            return
        name = self._tap(sandbox)
        await links.remove_tap(Path(sandbox.namespace), name)
        if not await links.has(outside, name):
            await links.add_tap(outside, name)

    async def after_start(self, sandbox: Sandbox) -> None:
        """The open device is moved to the pod's namespace; an existing device there stays."""
        outside = self._outside()
        if outside is None or sandbox.lease is None:
            return
        inside, name = Path(sandbox.namespace), self._tap(sandbox)
        if await links.has(outside, name):
            await links.move_tap(outside, name, inside)
        await links.join_tap(inside, name, sandbox.lease.mtu)
        if sandbox.translated:
            self._begin(links.announce(inside, sandbox.lease.gateway))

    async def receive(self, sandbox: Sandbox, inner: Lease | None) -> None:
        """Connects a guest that has the address of its former node; idempotent. Raises NetworkFailure."""
        outer = sandbox.lease
        if outer == inner or sandbox.translated:
            return
        if outer is None or inner is None:
            has, has_not = ("this", "the other") if inner is None else ("the other", "this")
            raise NetworkFailure(f"{has} node's VMs are in the pod network, and {has_not} node's are not (--network)")
        await self._stop_serving(sandbox)
        try:
            if outer.address != inner.address:
                await links.translated(Path(sandbox.namespace), outer, inner)
                sandbox.translated = True
            sandbox.lease = inner
            await self._serve(sandbox)
        except OSError as error:
            raise NetworkFailure(f"cannot connect the VM to the pod's network: {error}") from error

    async def _stop_serving(self, sandbox: Sandbox) -> None:
        server = self._servers.pop(sandbox.id, None)
        if server is not None:
            await server.close()

    async def disconnect(self, sandbox: Sandbox) -> None:
        await self._stop_serving(sandbox)
        self._connected.pop(sandbox.config.metadata.uid, None)
        if self._pods is not None:
            await self._remove_tap(sandbox.config.metadata.uid)
            await self._pods.disconnect(sandbox.config.metadata.uid)
        sandbox.address, sandbox.lease, sandbox.translated = "", None, False

    async def _remove_tap(self, uid: str) -> None:
        if (outside := self._outside()) is not None:
            await links.remove_tap(outside, links.tap_of(uid))

    def of(self, sandbox: Sandbox) -> Network:
        if sandbox.lease is not None:
            return Network(TAP, sandbox.lease.mac, self._tap(sandbox))
        return Network(NO_NETWORK if self._mode == NONE else USER_NETWORK, mac_of(sandbox))

    def cmdline(self, sandbox: Sandbox) -> str:
        """The guest's name, address and resolver, on its kernel command line."""
        words = [f"podfit.hostname={sandbox.config.hostname}"] if sandbox.config.hostname else []
        if (lease := sandbox.lease) is not None:
            words.append(f"podfit.address={lease.address}/{lease.prefix}")
            if lease.gateway:
                words.append(f"podfit.gateway={lease.gateway}")
        dns = sandbox.config.dns_config
        lists = {"dns": dns.servers, "search": dns.searches, "resolver": dns.options}
        words += [f"podfit.{name}={','.join(values)}" for name, values in lists.items() if values]
        return " ".join(words)

    async def dial(self, sandbox: Sandbox, port: int) -> ByteStream:
        """A connection to a port of the guest. Raises StreamFailure."""
        if not sandbox.address:
            raise StreamFailure("the pod has no address: its VM is in QEMU's own network")
        try:
            async with asyncio.timeout(CONNECT_S):
                return Connection(*await asyncio.open_connection(sandbox.address, port))
        except (OSError, TimeoutError) as error:
            raise StreamFailure(f"connecting to {sandbox.address}:{port}: {error or 'timed out'}") from error

    def door(self, sandbox: Sandbox) -> tuple[Callable[[], None], Callable[[], None]]:
        """Enters and leaves the pod's network namespace in the calling thread."""
        if sandbox.lease is None or self._outside() is not None:
            return (lambda: None), (lambda: None)
        inside, outside = Path(sandbox.namespace), Path(f"/proc/{os.getpid()}/ns/net")
        return (lambda: namespaces.enter(inside)), (lambda: namespaces.enter(outside))


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(65536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close_write(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()


def _port(mapping: cri.PortMapping) -> PortMapping:
    return PortMapping(mapping.host_port, mapping.container_port, _PROTOCOLS[mapping.protocol], mapping.host_ip)
