"""Builds a meter that runs as a separate process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podfit.client import Client
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.addresses import reached_at

if TYPE_CHECKING:
    # Components are imported when they are built: an API server alone then needs half the time and memory to start.
    from podfit.client.kubeconfig import Access
    from podfit.meter.server import MeterServer


class MeterAlone:
    """A meter in a separate process. The API server of `access` proxies metrics.k8s.io to it."""

    def __init__(self, access: Access, host: str, port: int, url: str = "", resolution_s: float = 15.0) -> None:
        """`url` is the URL at which the API server reaches the meter, if that is not `host` and `port`."""
        from podfit.meter.meter import Meter, MeterConfig

        self._client, self._host, self._port, self._url = Client(access.transport("podfit-meter")), host, port, url
        self.meter = Meter(self._client, MeterConfig(resolution_s))
        self._tasks = Tasks("meter")
        self._server: MeterServer | None = None

    async def start(self) -> str:
        """Starts serving; returns the URL."""
        from podfit.agent.server.access import serving_tls
        from podfit.apiserver.auth.certs.certificates import Authority, new_authority
        from podfit.apiserver.auth.certs.pki import CERT_TTL
        from podfit.meter.api import MetricsApi
        from podfit.meter.registration import Remote, front_proxy, register
        from podfit.meter.server import MeterServer

        proxy = await front_proxy(self._client)
        authority = Authority.load(new_authority("podfit-meter-ca", CERT_TTL))
        pair = authority.server("podfit-meter", (self._host, "podfit-meter.kube-system.svc"), CERT_TTL)
        api = MetricsApi(self.meter, self._client)
        tls = serving_tls(pair.cert, pair.key, proxy.ca)
        server = self._server = MeterServer(api, tls, self._host, self._port, proxy.names)
        await server.start()
        url = self._url or server.url.replace(self._host, reached_at(self._host), 1)
        await register(self._client, Remote(url, authority.pem))
        self._tasks.start(self.meter.run(), "meter")
        return server.url

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._server is not None:
            await self._server.stop()
        await self._client.close()
