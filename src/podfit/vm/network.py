"""The network of VM pods: an address in the pod network, QEMU's own user network, or none.

A pod with an address has a network namespace like that of a container pod. In it a bridge joins the pod's link with
the guest's tap device, and the guest takes over the link's address and MAC: others cannot tell it from a container.
The guest learns its address by DHCP, or from its kernel's command line.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

from podfit.cri import api_pb2 as cri
from podfit.podnet import namespaces
from podfit.podnet.attachment import PodRequest
from podfit.podnet.failures import NetworkFailure
from podfit.podnet.network import AUTO, MODES, NetworkSettings, PodNetwork
from podfit.podnet.ports import PortMapping
from podfit.streaming.ends import ByteStream, StreamFailure
from podfit.vm.dhcp import DhcpServer, Lease, Names
from podfit.vm.machines.definition import NO_NETWORK, TAP, USER_NETWORK, Network
from podfit.vm.records import Sandbox

log = logging.getLogger(__name__)
NONE, USER = "none", "user"
TAP_NAME, BRIDGE_NAME = "tap0", "br0"
CONNECT_S = 5.0
_PROTOCOLS = {cri.Protocol.TCP: "TCP", cri.Protocol.UDP: "UDP", cri.Protocol.SCTP: "SCTP"}


def mac_of(sandbox: Sandbox) -> str:
    """A locally administered address that stays the same for the pod."""
    digits = sandbox.id[:10]
    return "52:" + ":".join(digits[at : at + 2] for at in range(0, 10, 2))


class Networks:
    def __init__(self, folder: Path, mode: str = AUTO) -> None:
        self._mode = mode
        mark = hashlib.sha256(f"vm {folder.absolute()}".encode()).hexdigest()[:8]
        settings = NetworkSettings(mode if mode in MODES else AUTO)
        self._pods = PodNetwork(folder.absolute(), mark, settings) if mode not in (NONE, USER) else None
        self._servers: dict[str, DhcpServer] = {}

    async def open(self, sandboxes: list[Sandbox]) -> None:
        """Pods that are connected already stay so."""
        if self._pods is None:
            return
        await self._pods.open()
        for sandbox in sandboxes:
            if sandbox.ready and sandbox.lease is not None:
                await self._serve(sandbox)

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()
        if self._pods is not None:
            await self._pods.close()

    async def connect(self, sandbox: Sandbox) -> None:
        """Gives the pod an address, if there is a network to give it. Raises NetworkFailure."""
        if self._pods is None:
            return
        metadata = sandbox.config.metadata
        ports = tuple(_port(one) for one in sandbox.config.port_mappings if one.host_port)
        request = PodRequest(metadata.uid, metadata.namespace, metadata.name, ports, dict(sandbox.config.annotations))
        found = await self._pods.connect(request)
        if found is None:
            return
        try:
            sandbox.namespace, sandbox.address = found.namespace, found.ips[0]
            sandbox.lease = await self._bridge(sandbox)
            await self._serve(sandbox)
        except (OSError, ValueError, KeyError, IndexError) as error:
            await self._pods.disconnect(metadata.uid)
            raise NetworkFailure(f"cannot connect the VM to the pod's network: {error}") from error

    async def _bridge(self, sandbox: Sandbox) -> Lease:
        """Moves the pod's address and MAC from its link to the guest, and puts both on one bridge."""
        name = Path(sandbox.namespace).name
        link = next(one for one in json.loads(await _ip(name, "-j", "addr", "show", "dev", "eth0")) if one)
        address = next(one for one in link["addr_info"] if one["family"] == "inet")
        routes = json.loads(await _ip(name, "-j", "route", "show", "default"))
        gateway = str(routes[0].get("gateway", "")) if routes else ""
        lease = Lease(str(address["local"]), int(address["prefixlen"]), gateway, str(link["address"]), int(link["mtu"]))
        steps = (
            f"link add {BRIDGE_NAME} type bridge forward_delay 0 mcast_snooping 0",
            f"tuntap add {TAP_NAME} mode tap",
            "addr flush dev eth0",
            "link set eth0 down",
            f"link set eth0 address {mac_of(sandbox)}",
            f"link set eth0 master {BRIDGE_NAME} up",
            f"link set {TAP_NAME} mtu {lease.mtu} master {BRIDGE_NAME} up",
            f"link set {BRIDGE_NAME} up",
        )
        for step in steps:
            await _ip(name, *step.split())
        return lease

    async def _serve(self, sandbox: Sandbox) -> None:
        assert sandbox.lease is not None
        if sandbox.id not in self._servers and namespaces.exists(Path(sandbox.namespace)):
            dns = sandbox.config.dns_config
            names = Names(sandbox.config.hostname, tuple(dns.servers), tuple(dns.searches))
            server = DhcpServer(Path(sandbox.namespace), BRIDGE_NAME, sandbox.lease, names)
            await server.start()
            self._servers[sandbox.id] = server

    async def disconnect(self, sandbox: Sandbox) -> None:
        server = self._servers.pop(sandbox.id, None)
        if server is not None:
            await server.close()
        if self._pods is not None:
            await self._pods.disconnect(sandbox.config.metadata.uid)
        sandbox.address, sandbox.lease = "", None

    def of(self, sandbox: Sandbox) -> Network:
        if sandbox.lease is not None:
            return Network(TAP, sandbox.lease.mac, TAP_NAME)
        return Network(NO_NETWORK if self._mode == NONE else USER_NETWORK, mac_of(sandbox))

    def cmdline(self, sandbox: Sandbox) -> str:
        """The guest's name, address and resolver, on its kernel's command line."""
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
        if sandbox.lease is None:
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


def _port(one: cri.PortMapping) -> PortMapping:
    return PortMapping(one.host_port, one.container_port, _PROTOCOLS[one.protocol], one.host_ip)


async def _ip(namespace: str, *words: str) -> bytes:
    """`ip` in a network namespace. Raises OSError with what it said."""
    command = ("ip", "-n", namespace, *words)
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise OSError(f"{' '.join(command)}: {errors.decode(errors='replace').strip()}")
    return output
