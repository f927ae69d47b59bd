"""Proxies requests that only a node can serve: logs, exec, attach, port-forward, and its own HTTP paths.

Plain requests are forwarded and their responses streamed back; WebSockets are connected end to end and relayed message
by message, other upgrades (SPDY) byte by byte. The paths on the node are the kubelet's.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE
from podfit.api.status import REASON_OF_CODE, ApiError, bad_request, go_quote
from podfit.apiserver.auth.authenticate import without_bearer
from podfit.apiserver.auth.authorize import Authorization
from podfit.apiserver.calls import Call, warning_headers
from podfit.apiserver.proxying import connect, dialing, upgrade
from podfit.apiserver.proxying.dialing import why_not
from podfit.apiserver.proxying.links import leading_through
from podfit.apiserver.proxying.logoptions import check_log_options
from podfit.apiserver.proxying.relay import relay
from podfit.apiserver.request import Response
from podfit.apiserver.services.endpoints import endpoint_of
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.subresources.table import Handlers
from podfit.apiserver.writing.options import first
from podfit.kit.web.listener import LARGEST_MESSAGE

_DEFAULT_PORT = 10250
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_STREAMS = (("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"))
"""Names of log options in the API and in the kubelet."""
_PLAIN = "/:@!$&'()*+,;=~"
"""Characters of a path that need no escaping."""
_LOG_OPTIONS = ("follow", "previous", "sinceSeconds", "sinceTime", "timestamps", "tailLines", "limitBytes", "stream")
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "transfer-encoding", "upgrade", "content-length", "content-encoding", "host", "te")
)
_PRIVATE = frozenset(("authorization", "accept-encoding", "sec-websocket-protocol"))


_UNVERIFIED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_UNVERIFIED.check_hostname = False
_UNVERIFIED.verify_mode = ssl.CERT_NONE
"""The TLS context for pods and services, whose certificates cannot be verified here."""


class NodeProxy:
    def __init__(self, context: ssl.SSLContext | None, authorization: Authorization, own_address: str) -> None:
        """`context` contains the client certificate for nodes. Nodes and pods may be at loopback addresses only if
        `own_address`, at which they reach this server, is one."""
        self._context, self._authorization = context, authorization
        own = dialing.parsed(own_address)
        self._loopback = own.is_loopback if own is not None else own_address == "localhost"
        self._session: aiohttp.ClientSession | None = None

    def add_to(self, handlers: Handlers) -> None:
        handlers.add("", "pods", "log", self.log)
        for word in ("exec", "attach"):
            handlers.add("", "pods", word, self.in_container)
        handlers.add("", "pods", "portforward", self.port_forward)
        handlers.add("", "pods", "proxy", self.pod_proxy)
        handlers.add("", "nodes", "proxy", self.node_proxy)
        handlers.add("", "services", "proxy", self.service_proxy)

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, connect=10)
            traces = [dialing.no_redirects()]
            self._session = aiohttp.ClientSession(
                timeout=timeout, auto_decompress=False, trace_configs=traces, skip_auto_headers=dialing.AS_ASKED
            )
        return self._session

    # --- handlers -------------------------------------------------------------------------------------------------

    async def log(self, call: Call) -> Response:
        check_log_options(call.route.name, call.request.query)
        pod = _pod(call)
        container = _container(pod, first(call.request.query, "container"))
        query = [(name, call.request.query[name][0]) for name in _LOG_OPTIONS if call.request.query.get(name)]
        base = await self._node_url(call, pod)
        meta = pod["metadata"]
        path = f"/containerLogs/{_quoted(meta['namespace'], meta['name'], container)}"
        suffix = f"?{urlencode(query)}" if query else ""
        return await self._pass_on(call, f"{base}{path}{suffix}", "GET", {}, b"", self._context)

    async def in_container(self, call: Call) -> Response:
        options = await self._admitted(call)
        pod = _pod(call)
        container = _container(pod, options.get("container") or "")
        query = [("command", word) for word in options.get("command") or ()]
        query += [(theirs, "1") for ours, theirs in _STREAMS if options.get(ours)]
        meta = pod["metadata"]
        path = f"/{call.route.subresource}/{_quoted(meta['namespace'], meta['name'], meta['uid'], container)}"
        return await self._connect(call, f"{await self._node_url(call, pod)}{path}?{urlencode(query)}")

    async def port_forward(self, call: Call) -> Response:
        options = await self._admitted(call)
        pod = _pod(call)
        meta = pod["metadata"]
        query = [("port", str(port)) for port in options.get("ports") or ()]
        path = f"/portForward/{_quoted(meta['namespace'], meta['name'], meta['uid'])}"
        return await self._connect(call, f"{await self._node_url(call, pod)}{path}?{urlencode(query)}")

    async def node_proxy(self, call: Call) -> Response:
        path = await self._proxied_path(call)
        scheme, name, port = _split_target("node", call.route.name)
        node = call.objects.decoded(call.objects.required(NODE, "", name))
        host, own = _endpoint_of(node)
        if not port or port == str(own):
            return await self._forward(call, "https", host, own, path, self._context)
        return await self._forward(call, scheme or "http", host, int(port), path)

    async def pod_proxy(self, call: Call) -> Response:
        path = await self._proxied_path(call)
        scheme, name, port = _split_target("pod", call.route.name)
        pod = call.objects.decoded(call.objects.required(call.kind, call.namespace, name))
        address = (pod.get("status") or {}).get("podIP")
        if not address:
            raise bad_request("address not allowed")
        return await self._forward(call, scheme or "http", address, int(port or _first_port(pod)), path)

    async def service_proxy(self, call: Call) -> Response:
        path = await self._proxied_path(call)
        scheme, name, port = _split_target("service", call.route.name)
        call.objects.required(call.kind, call.namespace, name)
        found = endpoint_of(call.objects, call.namespace, name, port)
        if found is None:
            raise ApiError(503, "ServiceUnavailable", f"no endpoints available for service {go_quote(name)}")
        return await self._forward(call, scheme or "http", found[0], found[1], path)

    async def _admitted(self, call: Call) -> Object:
        options = await connect.admitted(call)
        connect.check_create(self._authorization, call)
        return options

    async def _proxied_path(self, call: Call) -> str:
        return str((await self._admitted(call)).get("path") or "")

    # --- connecting -----------------------------------------------------------------------------------------------

    async def _url(self, scheme: str, host: str, port: int) -> str:
        try:
            return f"{scheme}://{_host(await dialing.allowed_address(host, self._loopback))}:{port}"
        except dialing.NotAllowed as error:
            raise bad_request(str(error)) from None

    async def _node_url(self, call: Call, pod: Object) -> str:
        name = (pod.get("spec") or {}).get("nodeName")
        if not name:
            raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
        node = call.objects.get(NODE, "", name)
        if node is None:
            # Kubernetes names the kind of the request.
            raise ApiError(404, "NotFound", f'pods "{name}" not found', {"name": name, "kind": "pods"})
        return await self._url("https", *_endpoint_of(node))

    async def _forward(
        self, call: Call, scheme: str, host: str, port: int, path: str, context: ssl.SSLContext | None = _UNVERIFIED
    ) -> Response:
        """Forwards a request. `context` is for a node's own server only. Other targets must not get the client
        certificate for nodes: a pod's address may be that of a node, or of this API server."""
        request, base = call.request, await self._url(scheme, host, port)
        query = urlencode([(key, value) for key, values in request.query.items() for value in values])
        target = f"{base}{quote(path, safe=_PLAIN) or '/'}" + (f"?{query}" if query else "")
        if request.upgrade is not None and upgrade.wanted(request):
            return await self._relay(call, target, context)
        links = leading_through(request, quote(path, safe=_PLAIN), f"{_host(host)}:{port}")
        if not path and request.method in ("GET", "HEAD"):
            # Without the trailing slash, relative links of the page would not resolve.
            where = f"{quote(request.path, safe=_PLAIN)}/" + (f"?{query}" if query else "")
            return Response(301, b"", "text/plain; charset=utf-8", [("Location", where)])
        headers = {k: v for k, v in request.headers.items() if k not in _HOP_BY_HOP and not _is_private(k)}
        headers["x-forwarded-uri"] = links.seen(quote(path, safe=_PLAIN) or "/")
        answer = await self._pass_on(call, target, request.method, headers, request.body, context)
        return await links.rewritten(answer)

    async def _pass_on(
        self,
        call: Call,
        url: str,
        method: str,
        headers: dict[str, str],
        body: bytes,
        context: ssl.SSLContext | None,
    ) -> Response:
        try:
            answer = await self._client().request(
                method, url, headers=headers, data=body or None, ssl=context or False, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            why = why_not(error)
            if call.route.subresource == "proxy":
                raise ApiError(503, "ServiceUnavailable", f"error trying to reach service: {why}") from None
            raise ApiError(500, "", f"Get {go_quote(url)}: {why}") from None
        if call.route.subresource == "log" and 300 <= answer.status < 400:
            # A client would follow the redirect with its own credentials.
            answer.close()
            raise ApiError(500, "", f"Get {go_quote(url)}: redirects forbidden")
        if call.route.subresource == "log" and answer.status >= 400:
            text = (await answer.read()).decode(errors="replace").strip()
            raise ApiError(answer.status, REASON_OF_CODE.get(answer.status, "InternalError"), text)
        kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in (*_HOP_BY_HOP, "content-type")]
        media = answer.headers.get("Content-Type", "text/plain")
        kept += warning_headers(call.warnings)
        return Response(answer.status, content_type=media, headers=kept, stream=_pieces(answer))

    async def _connect(self, call: Call, url: str) -> Response:
        http = call.request.upgrade
        if http is None or not upgrade.wanted(call.request):
            raise bad_request("Upgrade request required")
        if "websocket" not in call.request.headers.get("upgrade", "").lower():
            return await self._relay(call, url, self._context)
        protocol = without_bearer(call.request.headers.get("sec-websocket-protocol", ""))
        offered = [word.strip() for word in protocol.split(",")]
        try:
            there = await self._client().ws_connect(
                url,
                protocols=[word for word in offered if word],
                ssl=self._context or False,
                max_msg_size=LARGEST_MESSAGE,
            )
        except aiohttp.WSServerHandshakeError as refused:
            text = f"unable to upgrade connection: the node answered {refused.status}"
            raise ApiError(refused.status, REASON_OF_CODE.get(refused.status, ""), text) from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _undialled(why_not(error)) from None
        return await relay(http, there)

    async def _relay(self, call: Call, url: str, context: ssl.SSLContext | None) -> Response:
        try:
            return await upgrade.pass_on(call.request, url, context)
        except upgrade.NoAnswer as error:
            raise _undialled(str(error)) from None


async def _pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except (TimeoutError, aiohttp.ClientError):
        return
    finally:
        answer.close()


def _pod(call: Call) -> Object:
    return call.objects.decoded(call.objects.required(call.kind, call.namespace, call.route.name))


def _container(pod: Object, wanted: str) -> str:
    spec, meta = pod.get("spec") or {}, pod["metadata"]
    groups = ("containers", "initContainers", "ephemeralContainers")
    names = [row["name"] for group in groups for row in spec.get(group) or []]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {meta['name']}")
        return wanted
    preferred = (meta.get("annotations") or {}).get(_DEFAULT_CONTAINER)
    if preferred in names:
        return str(preferred)
    own = [row["name"] for row in spec.get("containers") or []]
    if len(own) == 1:
        return str(own[0])
    more = [row["name"] for row in spec.get("initContainers") or []]
    text = f"a container name must be specified for pod {meta['name']}, choose one of: [{' '.join(own)}]"
    raise bad_request(text + (f" or one of the init containers: [{' '.join(more)}]" if more else ""))


def _quoted(*parts: str) -> str:
    return "/".join(quote(part, safe="") for part in parts)


def _split_target(what: str, text: str) -> tuple[str, str, str]:
    """(scheme, name, port) of `name`, `name:port` or `scheme:name:port`; missing parts are empty."""
    parts = text.split(":")
    scheme = parts.pop(0) if len(parts) > 2 else ""
    name, port, *more = [*parts, ""]
    # A Service's port may be a name.
    numbered = what == "service" or not port or (port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= 0xFFFF)
    if scheme not in ("", "http", "https") or not name or any(more) or not numbered:
        raise bad_request(f"invalid {what} request {go_quote(text)}")
    return scheme, name, port


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _first_port(pod: Object) -> int:
    """The first port declared by any container."""
    for container in (pod.get("spec") or {}).get("containers") or []:
        for row in container.get("ports") or []:
            return int(row["containerPort"])
    return 80


def _is_private(header: str) -> bool:
    """Whether a header is only for the API server: credentials, and impersonation."""
    return header in _PRIVATE or header.startswith(("impersonate-", "x-remote-"))


def _endpoint_of(node: Object) -> tuple[str, int]:
    """Host and port of the node's own server."""
    status: Any = node.get("status") or {}
    addresses = {row.get("type"): row.get("address") for row in reversed(status.get("addresses") or [])}
    host = addresses.get("InternalIP") or addresses.get("Hostname") or node["metadata"]["name"]
    own = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or _DEFAULT_PORT
    return host, int(own)


def scrape_targets(objects: Objects) -> list[Object]:
    """The addresses of the nodes' metrics, in the format of Prometheus' http_sd_configs."""
    found = [(node["metadata"]["name"], *_endpoint_of(node)) for node in objects.list(NODE)]
    return [{"targets": [f"{_host(host)}:{port}"], "labels": {"instance": name}} for name, host, port in found]


def _undialled(why: str) -> ApiError:
    return ApiError(500, "", f"error dialing backend: {why}")
