"""Builds the environment variables of Services, in the format of Docker links that Kubernetes still uses.

Services of the pod's own namespace, and always `kubernetes`, by which programs in pods find the API server. Its address
is replaced by the one at which the node itself reaches the API server, if known, unless that is a loopback address and
the pod has its own network: then the Service's address is redirected (see `on_redirect`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from podfit.agent.decide.resize.allocate import is_static
from podfit.agent.furnish.volumes.objects import MissingObject
from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.client.cache import BY_NAMESPACE, Cache
from podfit.client.rest import Client
from podfit.kit.clock import Clock
from podfit.kit.web.addresses import bracketed

SERVICE = kind_named("Service")
MASTER = ("default", "kubernetes")
_NOT_READ = "services have not yet been read at least once, cannot construct envvars"


class Services:
    def __init__(
        self,
        client: Client,
        clock: Clock,
        api_server: str,
        on_redirect: Callable[[str, int, str, int], None] = lambda address, port, target, target_port: None,
    ) -> None:
        """`api_server`: its URL, "" if unknown. `on_redirect`: called with the address of Service `kubernetes` and the
        loopback address that must answer there."""
        self._on_redirect = on_redirect
        self._cache = Cache(client, SERVICE, clock=clock, indexes={"namespace": BY_NAMESPACE})
        self._cache.subscribe(self._on_change)
        self._api_server = _address(api_server)

    async def run(self) -> None:
        await self._cache.run()

    async def known(self, timeout_s: float) -> None:
        """Waits until the Services were read, but no longer than the timeout, because a server may refuse to list
        them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._cache.ready.wait()

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        if after is not None and _key(after) == MASTER and _has_address(after) and self._on_loopback:
            assert self._api_server is not None
            self._on_redirect(after["spec"]["clusterIP"], int(after["spec"]["ports"][0]["port"]), *self._api_server)

    @property
    def _on_loopback(self) -> bool:
        return self._api_server is not None and _is_loopback(self._api_server[0])

    def variables(self, pod: Object, own_network: bool) -> dict[str, str]:
        """The variables for a pod. Raises MissingObject until the Services were read; a static pod does not wait for an
        API server."""
        if not self._cache.ready.is_set():
            if is_static(pod):
                return {}
            raise MissingObject(_NOT_READ)
        chosen = {}
        if (master := self._cache.get(*MASTER)) is not None:
            chosen[MASTER[1]] = master
        if pod["spec"].get("enableServiceLinks", True):
            for service in self._cache.by("namespace", pod["metadata"].get("namespace") or "default"):
                chosen[service["metadata"]["name"]] = service
        found: dict[str, str] = {}
        direct = None if own_network and self._on_loopback else self._api_server
        for name, service in sorted(chosen.items()):
            if _has_address(service):
                found.update(_links(name, service, direct if _key(service) == MASTER else None))
        return found


def _is_loopback(host: str) -> bool:
    """Whether the address is an IPv4 loopback address; an IPv6 address cannot be redirected to."""
    try:
        return ip_address(host).is_loopback and ":" not in host
    except ValueError:
        return False


def _address(url: str) -> tuple[str, int] | None:
    parts = urlsplit(url)
    return (parts.hostname, parts.port or 443) if parts.hostname else None


def _key(service: Object) -> tuple[str, str]:
    return service["metadata"].get("namespace") or "", service["metadata"]["name"]


def _has_address(service: Object) -> bool:
    return (service["spec"].get("clusterIP") or "None") != "None" and bool(service["spec"].get("ports"))


def _links(name: str, service: Object, where: tuple[str, int] | None) -> dict[str, str]:
    prefix = name.upper().replace("-", "_")
    ports = service["spec"]["ports"]
    host = where[0] if where else service["spec"]["clusterIP"]
    first = where[1] if where else ports[0]["port"]
    found = {f"{prefix}_SERVICE_HOST": host, f"{prefix}_SERVICE_PORT": str(first)}
    for at, port in enumerate(ports):
        number = first if at == 0 else port["port"]
        protocol = port.get("protocol") or "TCP"
        url = f"{protocol.lower()}://{bracketed(host)}:{number}"
        if port.get("name"):
            found[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = str(number)
        if at == 0:
            found[f"{prefix}_PORT"] = url
        link = f"{prefix}_PORT_{number}_{protocol.upper()}"
        found |= {link: url, f"{link}_PROTO": protocol.lower(), f"{link}_PORT": str(number), f"{link}_ADDR": host}
    return found
