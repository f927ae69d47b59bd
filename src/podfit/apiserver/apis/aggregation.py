"""Serves aggregated API groups (APIServices) through a component of this process or another server.

A registered handler serves its group immediately. A remote server is found by the Service that the APIService names (or
by the annotation `podfit.dev/url`); it gets the request with the user's name in X-Remote-* headers, over a connection
authenticated by the front-proxy certificate. The resources of a group are read from its discovery document.
"""

from __future__ import annotations

import base64
import logging
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import quote, urlencode

import aiohttp

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.status import ApiError, go_quote
from podfit.api.text.gojson import parse
from podfit.apiserver.apis.discovery import Discovery
from podfit.apiserver.auth.certs.pki import Pki
from podfit.apiserver.proxying.dialing import AS_ASKED, why_not
from podfit.apiserver.representation import wire
from podfit.apiserver.request import ADMIN, Request, Response, User
from podfit.apiserver.services.endpoints import reached_at
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import each, usable
from podfit.kit.clock import rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Mismatch

log = logging.getLogger(__name__)
API_SERVICE = kind_named("APIService")
URL = "podfit.dev/url"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
_RETRY_S = 10.0
_LARGEST = 3 << 20
_REDIRECTED = b"the backend attempted to redirect this request, which is not permitted"
_LOCAL = ("Local", "Local APIServices are always available")
_SKIPPED = frozenset(
    (
        *("host", "connection", "authorization", "content-length", "transfer-encoding", "upgrade", "accept-encoding"),
        "sec-websocket-protocol",
    )
)

_NOT_PASSED_ON = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "content-length", "content-type", "date", "server")
)
"""Headers of a response that concern only the connection to the other server."""

Handler = Callable[[Request], Awaitable[Response]]


class Aggregation:
    def __init__(self, objects: Objects, discovery: Discovery, pki: Pki) -> None:
        self._objects, self._discovery, self._pki = objects, discovery, pki
        self._local: dict[tuple[str, str], Handler] = {}
        self._remote: dict[tuple[str, str], Object] = {}
        self._session: aiohttp.ClientSession | None = None
        self._tasks = Tasks("aggregation")

    def register(self, group_version: str, handler: Handler) -> None:
        """Registers a component of this process as the server of a group, e.g. `metrics.k8s.io/v1beta1`."""
        group, _, version = group_version.rpartition("/")
        self._local[group, version] = handler
        self._tasks.start(self._announce(group, version, handler), f"announce {group_version}")

    def handler(self, group: str, version: str) -> Handler | None:
        """The handler of an aggregated group and version."""
        local = self._local.get((group, version))
        if local is not None:
            return local
        service = self._remote.get((group, version))
        return None if service is None else self._proxy(service)

    def start(self) -> None:
        stored = usable(API_SERVICE, self._objects.list(API_SERVICE))
        each(API_SERVICE, stored, lambda service: self._on_change(service["metadata"]["name"], None, service))

    async def resync(self) -> None:
        """Loads the stored APIServices, and drops groups whose APIService is gone."""
        stored = {_group_version(service) for service in self._objects.list(API_SERVICE)}
        for group, version in [known for known in self._remote if known not in stored]:
            del self._remote[group, version]
            self._forget(group, version)
        self.start()

    async def report_local(self) -> None:
        """Marks the APIServices of this server's own groups as available."""
        for service in usable(API_SERVICE, self._objects.list(API_SERVICE)):
            if not (service.get("spec") or {}).get("service"):
                await self._report_available(service["metadata"]["name"], True, *_LOCAL)

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._session is not None:
            await self._session.close()
            self._session = None

    def changed(self, event: WatchEvent) -> None:
        """Called by the hub for each change."""
        if event.resource == API_SERVICE.storage_prefix:
            self._on_change(event.name, event.old, event.new)

    def _on_change(self, name: str, old: Object | None, new: Object | None) -> None:
        before = _group_version(old) if old is not None else None
        if new is None or not (new.get("spec") or {}).get("service"):
            if before is not None and self._remote.pop(before, None) is not None and before not in self._local:
                self._forget(*before)
            if new is not None and _condition(new).get("reason") != "Local":
                self._tasks.start(self._report_available(name, True, *_LOCAL), f"status of {name}")
            return
        self._remote[_group_version(new)] = new
        if (
            old is None
            or old.get("spec") != new.get("spec")
            or old["metadata"].get("annotations") != new["metadata"].get("annotations")
        ):
            self._tasks.start(self._check(name), f"check {name}")

    # --- discovery and availability -------------------------------------------------------------------------------

    async def _announce(self, group: str, version: str, handler: Handler) -> None:
        path = f"/apis/{group}/{version}"
        answer = await handler(Request("GET", path, {}, {"accept": "application/json"}, b"", ADMIN))
        if answer.status == 200:
            self._add_discovered(group, version, _resources(answer.body))

    def _add_discovered(self, group: str, version: str, resources: list[Object]) -> None:
        known = self._discovery.foreign.setdefault(group, {"versions": [], "resources": {}})
        if version not in known["versions"]:
            known["versions"].append(version)
        known["resources"][version] = resources
        self._discovery.forget()

    def _forget(self, group: str, version: str) -> None:
        known = self._discovery.foreign.get(group)
        if known is not None and version in known["versions"]:
            known["versions"].remove(version)
            known["resources"].pop(version, None)
            if not known["versions"]:
                del self._discovery.foreign[group]
        self._discovery.forget()

    async def _check(self, name: str) -> None:
        """Polls the group's discovery document until it responds; then updates the status of the APIService."""
        while (service := self._objects.get(API_SERVICE, "", name)) is not None:
            group, version = _group_version(service)
            if (group, version) not in self._remote:
                return
            try:
                request = Request("GET", f"/apis/{group}/{version}", {}, {"accept": "application/json"}, b"", ADMIN)
                answer = await self._ask(service, request)
                body = await _whole(answer)
                if answer.status == 200:
                    self._add_discovered(group, version, _resources(body))
                    await self._report_available(name, True, "Passed", "all checks passed")
                    return
                why = f"bad status from {group}/{version}: {answer.status}"
            except (ApiError, ValueError, aiohttp.ClientError, OSError) as error:
                why = str(error)
            await self._report_available(name, False, "FailedDiscoveryCheck", f"failing or missing response: {why}")
            await self._objects.clock.sleep(_RETRY_S)

    async def _report_available(self, name: str, available: bool, reason: str, message: str) -> None:
        while (record := self._objects.record(API_SERVICE, "", name)) is not None:
            service = wire.object_of(record)
            row = {"type": "Available", "status": str(available), "reason": reason, "message": message}
            before = _condition(service)
            if before and {key: before.get(key) for key in row} == row:
                return
            row["lastTransitionTime"] = rfc3339(self._objects.clock.now())
            service.setdefault("status", {})["conditions"] = [row]
            try:
                await self._objects.put(API_SERVICE, record.key, service, record.modified)
                return
            except Mismatch:
                continue

    # --- proxying -------------------------------------------------------------------------------------------------

    def _proxy(self, service: Object) -> Handler:
        async def handle(request: Request) -> Response:
            return await self._ask(service, request)

        return handle

    async def _ask(self, service: Object, request: Request) -> Response:
        base = self._url_of(service)
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=AS_ASKED)
        query = urlencode([(key, value) for key, values in request.query.items() for value in values])
        url = f"{base}{quote(request.path)}" + (f"?{query}" if query else "")
        kept = [
            (k, v)
            for k, v in request.headers.items()
            if k not in _SKIPPED and not k.startswith(("x-remote-", "impersonate-"))
        ]
        try:
            answer = await self._session.request(
                request.method,
                url,
                headers=[*kept, *_identity(request.user)],
                data=request.body or None,
                ssl=self._context(service) if base.startswith("https") else False,
                server_hostname=_server_name(service) if base.startswith("https") else None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise ApiError(503, "ServiceUnavailable", f"error trying to reach service: {why_not(error)}") from None
        if 300 <= answer.status < 400 and answer.headers.get("Location"):
            # The target of a redirect would get the front-proxy certificate if this server followed it, or the
            # client's credentials if the client did.
            answer.close()
            return Response(502, _REDIRECTED, "text/plain; charset=utf-8")
        media = answer.headers.get("Content-Type", "application/json")
        passed_on = [(k, v) for k, v in answer.headers.items() if k.lower() not in _NOT_PASSED_ON]
        return Response(answer.status, content_type=media, headers=passed_on, stream=_pieces(answer))

    def _url_of(self, service: Object) -> str:
        given = (service["metadata"].get("annotations") or {}).get(URL)
        if given:
            return str(given).rstrip("/")
        ref = service["spec"]["service"]
        namespace, name, port = ref.get("namespace", ""), ref.get("name", ""), ref.get("port", 443)
        found = reached_at(self._objects, namespace, name, int(port))
        if found is not None:
            host = f"[{found[0]}]" if ":" in found[0] else found[0]
            return f"https://{host}:{found[1]}"
        raise ApiError(503, "ServiceUnavailable", f"no endpoints available for service {go_quote(name)}")

    def _context(self, service: Object) -> ssl.SSLContext:
        spec = service["spec"]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if spec.get("insecureSkipTLSVerify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif spec.get("caBundle"):
            context.load_verify_locations(cadata=base64.b64decode(spec["caBundle"]).decode())
        else:
            context.load_default_certs()
        pair = self._pki.front_proxy_client
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Path(folder, "proxy.crt"), Path(folder, "proxy.key")
            cert.write_bytes(pair.cert)
            key.touch(0o600)
            key.write_bytes(pair.key)
            context.load_cert_chain(cert, key)
        return context


def _server_name(service: Object) -> str:
    """The name that the server's certificate must be valid for, regardless of the address."""
    ref = service["spec"]["service"]
    return f"{ref.get('name', '')}.{ref.get('namespace', '')}.svc"


async def _whole(answer: Response) -> bytes:
    """The body of a discovery document; ValueError if it is too long."""
    if answer.stream is None:
        return answer.body
    body = b""
    async for piece in answer.stream:
        body += piece
        if len(body) > _LARGEST:
            raise ValueError(f"the discovery document is larger than {_LARGEST} bytes")
    return body


def _resources(body: bytes) -> list[Object]:
    document = parse(body)
    rows = (document.get("resources") or []) if isinstance(document, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("the discovery document is no APIResourceList")
    return rows


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.content.iter_any():
            yield piece
    finally:
        answer.close()


def _identity(user: User) -> list[tuple[str, str]]:
    """The headers that assert the user. Each group has a header of its own: other servers do not split at commas."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", group) for group in user.groups]
    headers += [
        (f"X-Remote-Extra-{quote(key, safe='')}", value) for key, values in user.extra.items() for value in values
    ]
    return headers


def _group_version(service: Object) -> tuple[str, str]:
    spec = service.get("spec") or {}
    return spec.get("group", ""), spec.get("version", "")


def _condition(service: Object) -> Object:
    rows = (service.get("status") or {}).get("conditions") or []
    return next((row for row in rows if row.get("type") == "Available"), {})


def local_services(kinds: list[Kind]) -> list[Object]:
    """APIServices of the server's own groups."""
    found: dict[tuple[str, str], Object] = {}
    for kind in kinds:
        if kind.custom or (kind.group, kind.version) in found:
            continue
        found[kind.group, kind.version] = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{kind.version}.{kind.group}", "labels": {AUTOMANAGED: "onstart"}},
            "spec": {
                **({"group": kind.group} if kind.group else {}),
                "version": kind.version,
                "groupPriorityMinimum": 18000 if not kind.group else 17000,
                "versionPriority": 15,
            },
        }
    return list(found.values())
