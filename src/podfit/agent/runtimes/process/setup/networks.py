"""Manages the network of the process runtime's pods: each has its own, or the host's."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from podfit.agent.runtimes.process.streams import TcpStream
from podfit.agent.runtimes.values import PodConfig, RuntimeFailure
from podfit.podnet.attachment import PodRequest
from podfit.podnet.failures import NetworkFailure
from podfit.podnet.kernel import namespaces
from podfit.podnet.network import PodNetwork

log = logging.getLogger(__name__)

_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class Networks:
    def __init__(self, network: PodNetwork | None, host_ip: str) -> None:
        """`network`: None if every pod shares the host's network."""
        self._network, self._host = network, (host_ip,)

    async def open(self, known: Collection[str]) -> None:
        """Disconnects pods without a record, which an agent left when it died while it created or removed them."""
        if self._network is not None:
            await self._network.open()
            for attachment in self._network.all():
                if attachment.request.uid not in known:
                    try:
                        await self.disconnect(attachment.request.uid)
                    except RuntimeFailure as error:
                        log.warning("%s", error)

    async def close(self) -> None:
        if self._network is not None:
            await self._network.close()

    async def purge(self) -> None:
        if self._network is not None:
            await self._network.purge()

    async def connect(self, config: PodConfig) -> None:
        if config.host_network:
            return
        parameters = {name: value for name, value in config.sysctls.items() if name.startswith("net.")}
        request = PodRequest(
            config.uid, config.namespace, config.name, config.host_ports, dict(config.annotations), parameters
        )
        try:
            own = await self._network.connect(request) if self._network is not None else None
        except NetworkFailure as error:
            who = f'"{config.namespace}/{config.name}"'
            raise RuntimeFailure(f"failed to set up the network of pod {who}: {error}") from error
        if own is None and parameters:
            raise RuntimeFailure(f"sysctl {next(iter(parameters))} cannot be set: the pod shares the host's network")

    async def disconnect(self, uid: str) -> None:
        if self._network is None:
            return
        try:
            await self._network.disconnect(uid)
        except (NetworkFailure, OSError) as error:
            raise RuntimeFailure(f"failed to remove the network of pod {uid}: {error}") from error

    def namespace(self, uid: str) -> str:
        """The path of the pod's own network namespace, "" for the host's."""
        own = self._network.of(uid) if self._network is not None else None
        return own.namespace if own is not None else ""

    def ips(self, uid: str) -> tuple[str, ...]:
        own = self._network.of(uid) if self._network is not None else None
        return own.ips if own is not None else self._host

    def is_lost(self, uid: str) -> bool:
        """Whether the pod's own namespace no longer exists."""
        return bool(self.namespace(uid)) and self._network is not None and not self._network.is_connected(uid)

    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        if self._network is not None:
            try:
                await self._network.redirect(address, port, target, target_port)
            except (NetworkFailure, OSError) as error:
                raise RuntimeFailure(
                    f"{address}:{port} cannot be redirected to {target}:{target_port}: {error}"
                ) from error

    def use_range(self, pod_range: str) -> None:
        if self._network is not None:
            self._network.set_range(pod_range)

    async def dial(self, uid: str, port: int) -> TcpStream:
        """A connection to a port on the pod's loopback, for port-forward."""
        path = self.namespace(uid)
        try:
            if not path:
                return TcpStream(*await asyncio.open_connection("127.0.0.1", port))
            with suppress(ConnectionRefusedError):
                return await _dial_inside(Path(path), *_LOOPBACK[0], port)
            return await _dial_inside(Path(path), *_LOOPBACK[1], port)
        except OSError as error:
            raise RuntimeFailure(f"cannot connect to port {port} of the pod: {error.strerror}") from error


async def _dial_inside(namespace: Path, family: socket.AddressFamily, address: str, port: int) -> TcpStream:
    endpoint = await namespaces.socket_in(namespace, family)
    endpoint.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(endpoint, (address, port))
    except BaseException:
        endpoint.close()
        raise
    return TcpStream(*await asyncio.open_connection(sock=endpoint))
