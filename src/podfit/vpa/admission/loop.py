"""The admission webhook: sets the resources of new pods and validates autoscaler objects, over HTTPS.

It starts serving before it registers itself. `reviews` computes the responses.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from typing import TypeVar

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from podfit.api.registry.kinds import LEASE, kind_named
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock, rfc3339_micro
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.listener import HttpListener, limited_requests, side_listener_limit
from podfit.vpa.admission.certificates import Certificates, SharedCertificates, from_files, load_chain
from podfit.vpa.admission.ciphers import openssl_list
from podfit.vpa.admission.config import AdmissionConfig
from podfit.vpa.admission.decide.conversion import converted
from podfit.vpa.admission.fitting import Fitting
from podfit.vpa.admission.lookup import Index, Owners
from podfit.vpa.admission.measures import AdmissionMeasures
from podfit.vpa.admission.registration import CONVERT_PATH, register, register_conversion, url_of
from podfit.vpa.admission.reviews import Reviews, read
from podfit.vpa.observe.caches import Caches
from podfit.vpa.observe.change_stops import ChangeStops
from podfit.vpa.observe.live_recommendations import Ask, LiveRecommendations, query_by
from podfit.vpa.observe.scales import Scales
from podfit.vpa.observe.targets import Targets
from podfit.vpa.serve.http import Health, HttpServer
from podfit.vpa.serve.probe import registered, silence
from podfit.vpa.serve.profiling import add_profiling
from podfit.vpa.serve.requests import measured

log = logging.getLogger(__name__)
_Form = TypeVar("_Form")

LEASE_NAME, LEASE_EVERY_S = "vpa-admission-controller", 10.0
UPKEEP_S = 60.0
STAND_BY_S, SILENT_TIMES = 2.0, 2
"""How often the webhook registered in its place is checked, and how many failures it may have."""
MAX_BODY = 8 << 20


class AdmissionWebhook:
    def __init__(
        self,
        client: Client,
        config: AdmissionConfig | None = None,
        clock: Clock | None = None,
        registry: CollectorRegistry | None = None,
        ask: Ask | None = None,
    ) -> None:
        """`ask` queries a recommender in this process. Without it the configured URL is queried, if there is one."""
        self.registry = registry or CollectorRegistry()
        self.config = config or AdmissionConfig()
        client = self.client = measured(client, self.registry, self.config)
        self.clock: Clock = clock or RealClock()
        # Pods of all namespaces are admitted, but autoscalers of ignored namespaces do not apply.
        self.caches = Caches(
            client, self.clock, self.config.vpa_object_namespace, self.config.ignored_vpa_object_namespaces
        )
        self.limit_ranges = self.caches.follow(kind_named("LimitRange"))
        self.fitting = Fitting(self.caches, self.clock) if self.config.fit_to_room else None
        self.quotas = self.caches.follow(kind_named("ResourceQuota"))
        self.stops = ChangeStops(self.caches, self.config.panic_namespace, self.config.panic_name)
        self.scales = Scales(client, self.clock)
        self.targets = Targets(self.caches, self.scales)
        hpas = self.caches.follow(kind_named("HorizontalPodAutoscaler"))
        self.index = Index(self.caches, hpas, self.targets.template_labels)
        self.owners = Owners(client, self.caches, self.targets)
        self._asker = query_by(self.config.recommender_url, client) if ask is None else None
        self.live = LiveRecommendations(ask or self._asker, self.config.recommender_timeout, self.clock)
        self.measures = AdmissionMeasures(self.registry, self.clock)
        self.http = HttpServer(self.config.address, self.registry, Health(self.clock, float("inf")))
        if self.config.profiling:
            add_profiling(self.http, self.clock)
        self.port = 0
        self.registered = asyncio.Event()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._certificates: Certificates | None = None
        self._listener: HttpListener | None = None
        self.reviews = Reviews(self)
        self._tasks = Tasks("vpa-admission")

    # --- running

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            await self.start()
            await self._maintain()
        finally:
            await self.stop()

    async def start(self) -> None:
        await self.http.start()
        await self.caches.start()
        self.index.start()
        if self.fitting is not None:
            self.fitting.start()
        await self._first_certificates()
        await self._serve()
        self._tasks.start(self._renew_lease(), "lease")

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._listener is not None:
            await self._listener.close()
            self._listener = None
        if self._asker is not None:
            await self._asker.close()
        await self.caches.stop()
        await self.http.stop()

    async def _serve(self) -> None:
        self._listener = HttpListener(
            self._handle, self._tls, limit=side_listener_limit(), request_factory=limited_requests(MAX_BODY)
        )
        await self._listener.open(self.config.host, self.config.port)
        self.port = self._listener.port

    async def _maintain(self) -> None:
        """Checks the registration and the certificates once a minute: a registration may be deleted, certificates
        expire."""
        backoff = Backoff(0.5, 30.0)
        await self.clock.sleep(self.config.register_delay)
        while True:
            try:
                await self.upkeep()
                backoff.forget()
                await self._stand_by()
            except (ApiError, Unreachable) as error:
                log.warning("registering the webhook: %s", error)
                await self.clock.sleep(backoff.next())

    async def upkeep(self) -> None:
        await self._load_certificates()
        if self.config.register_webhook and not await self._another_responds():
            assert self._certificates is not None
            await register(self.client, self.config, self._certificates.ca, self.port)
            await register_conversion(self.client, self.config, self._certificates.ca, self.port)
        self.registered.set()
        await self.scales.refresh()

    async def _stand_by(self) -> None:
        """Returns when maintenance is due: after a minute, or when the webhook that is registered instead of this one
        does not respond."""
        until = self.clock.monotonic() + UPKEEP_S
        silent = 0
        while self.clock.monotonic() < until and silent < SILENT_TIMES:
            await self.clock.sleep(STAND_BY_S if self._by_url else UPKEEP_S)
            silent = silent + 1 if self._by_url and await self._others_silence() else 0

    @property
    def _by_url(self) -> bool:
        """Whether the webhook is registered by URL. Then only one of several can be registered; behind a Service all of
        them are."""
        return self.config.register_webhook and self.config.register_by_url

    async def _another_responds(self) -> bool:
        """Whether another webhook is registered and responds. The last webhook to start is registered; the others are
        standbys."""
        if not self._by_url or not self.registered.is_set():
            return False
        url, authority = await registered(self.client)
        return url not in ("", self._own_url) and not await silence(url, authority)

    async def _others_silence(self) -> str:
        """Why the other webhook that is registered does not respond; empty if it does, or if this one is registered."""
        url, authority = await registered(self.client)
        return await silence(url, authority) if url not in ("", self._own_url) else ""

    @property
    def _own_url(self) -> str:
        return url_of(self.config, self.port)

    # --- certificates

    def _names(self) -> tuple[str, ...]:
        service = f"{self.config.webhook_service}.{self.config.namespace}.svc"
        return (self.config.webhook_address, service) if self.config.webhook_address else (service,)

    async def _first_certificates(self) -> None:
        self._tls.minimum_version = (
            ssl.TLSVersion.TLSv1_3 if self.config.min_tls_version == "tls1_3" else ssl.TLSVersion.TLSv1_2
        )
        if ciphers := openssl_list(self.config.tls_ciphers):
            self._tls.set_ciphers(ciphers)
        backoff = Backoff(0.5, 30.0)
        while self._certificates is None:
            try:
                await self._load_certificates()
            except (ApiError, Unreachable) as error:
                log.warning("the webhook's certificates: %s", error)
                await self.clock.sleep(backoff.next())

    async def _load_certificates(self) -> None:
        """Loads the certificates. New handshakes use them; existing connections are not affected."""
        config = self.config
        found = from_files(config.client_ca_file, config.tls_cert_file, config.tls_private_key)
        if found is None:
            shared = SharedCertificates(
                self.client, config.namespace, config.certificate_secret, self._names(), config.certificate_lifetime
            )
            found = await shared.current(self.clock.now())
        if found != self._certificates:
            load_chain(self._tls, found)
            self._certificates = found

    async def _renew_lease(self) -> None:
        """Renews the Lease that shows the updater that evicted pods would be sized when they are recreated."""
        while True:
            try:
                await self._renew_once()
            except (ApiError, Unreachable) as error:
                log.info("lease %s: %s", LEASE_NAME, error)
            await self.clock.sleep(LEASE_EVERY_S)

    async def _renew_once(self) -> None:
        spec = {
            "holderIdentity": os.environ.get("HOSTNAME") or socket.gethostname(),
            "renewTime": rfc3339_micro(self.clock.now()),
        }
        try:
            await self.client.patch(LEASE, self.config.namespace, LEASE_NAME, {"spec": spec})
        except ApiError as error:
            if error.code != 404:
                raise
            body = {"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": {"name": LEASE_NAME}, "spec": spec}
            await self.client.create(LEASE, body, self.config.namespace)

    # --- requests

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        if request.method == "POST" and request.path == CONVERT_PATH:
            return await self._convert(request)
        if request.method == "GET":
            # Updaters and standby webhooks check whether this webhook responds.
            return web.Response(text="ok")
        if request.headers.get("Content-Type", "").partition(";")[0] != "application/json":
            self.measures.answered("error", "unknown", 0.0)
            return web.Response()
        with self.measures.steps.step("total"):
            with self.measures.steps.step("read_request"):
                body = await request.read()
            text = await self.reviews.review(body)
            with self.measures.steps.step("write_response"):
                response = web.Response(body=text, content_type="application/json")
                await response.prepare(request)
                await response.write_eof()
        return response

    async def _convert(self, request: web.BaseRequest) -> web.Response:
        review = converted(read(await request.read()))
        return web.Response(body=msgspec.json.encode(review), content_type="application/json")
