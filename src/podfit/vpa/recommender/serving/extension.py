"""Serves recommendation.podfit.dev over HTTPS, behind an API server that forwards the group to this recommender.

Only the API server may connect: it has authenticated and authorised the user, and presents the front proxy's client
certificate. The serving certificate is issued at every start; its authority is registered in the APIService.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.web.listener import HttpListener, common_name, side_listener_limit
from podfit.vpa.flags import BadFlag, own_namespace
from podfit.vpa.recommender.serving.queries import GROUP, VERSION, Queries

if TYPE_CHECKING:
    from podfit.vpa.recommender.loop import Recommender

log = logging.getLogger(__name__)
_API_SERVICE, _CONFIG_MAP = kind_named("APIService"), kind_named("ConfigMap")
_NAME = f"{VERSION}.{GROUP}"
_HEALTH = ("/healthz", "/livez", "/readyz")


class Extension:
    def __init__(self, recommender: Recommender) -> None:
        self._of, self._queries = recommender, Queries(recommender)
        self._allowed: frozenset[str] = frozenset()
        self._listener: HttpListener | None = None
        self._authority = b""
        self.port = 0

    async def run(self) -> None:
        """Serves and registers the group; retries until the API server accepts it."""
        backoff = Backoff(1.0, 60.0)
        while True:
            try:
                await self.start()
                return
            except (ApiError, Unreachable) as error:
                log.warning("recommendation.podfit.dev is not registered: %s", error)
                await self._of.clock.sleep(backoff.next())

    async def start(self) -> None:
        """Serves and registers the group. Raises ApiError, Unreachable, BadFlag."""
        config, client = self._of.config, self._of.client
        found = (await client.get(_CONFIG_MAP, "kube-system", "extension-apiserver-authentication")).get("data") or {}
        self._allowed = frozenset(json.loads(found.get("requestheader-allowed-names") or "[]"))
        if self._listener is None:
            # Imported late, because cryptography takes several megabytes that a recommender without this server saves.
            from podfit.vpa.admission.certificates import CA_DAYS, load_chain, made

            service = f"{config.secure_service}.{own_namespace()}.svc"
            pair = made((service,), self._of.clock.now(), CA_DAYS * 86400.0)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.minimum_version, tls.verify_mode = ssl.TLSVersion.TLSv1_2, ssl.CERT_OPTIONAL
            load_chain(tls, pair)
            tls.load_verify_locations(cadata=found.get("requestheader-client-ca-file") or "")
            await self._open(tls)
            self._authority = pair.ca
        await _register(client, config.secure_service, config.secure_url, self._authority)

    async def _open(self, tls: ssl.SSLContext) -> None:
        address = self._of.config.secure_address
        host, _, port = address.rpartition(":")
        listener = HttpListener(self._serve, tls, limit=side_listener_limit())
        try:
            await listener.open(host.strip("[]") or "0.0.0.0", int(port))
        except (OSError, ValueError) as error:
            raise BadFlag(f"--secure-address {address}: {error}") from error
        self._listener, self.port = listener, listener.port

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = unquote(request.raw_path.partition("?")[0])
        if path in _HEALTH:
            return web.Response(text="ok")
        transport = request.transport
        name = common_name(transport.get_extra_info("peercert") if transport is not None else None)
        if not name or (self._allowed and name not in self._allowed):
            return web.json_response(ApiError(401, "Unauthorized", "Unauthorized").to_status(), status=401)
        code, value = await self._queries.answer(request.method, path, await request.read())
        return web.json_response(value, status=code)


async def _register(client: Client, service: str, url: str, ca: bytes) -> None:
    where = {"namespace": own_namespace(), "name": service, "port": 443}
    spec: Object = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100}
    spec |= {"service": where, "caBundle": base64.b64encode(ca).decode()}
    meta: Object = {"name": _NAME, **({"annotations": {"podfit.dev/url": url}} if url else {})}
    body = {"apiVersion": _API_SERVICE.api_version, "kind": "APIService", "metadata": meta, "spec": spec}
    try:
        await client.create(_API_SERVICE, body)
    except ApiError as error:
        if error.code != 409:
            raise
        await client.patch(_API_SERVICE, "", _NAME, {"metadata": meta, "spec": spec})
