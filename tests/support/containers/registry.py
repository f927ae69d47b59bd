"""A registry on loopback with fault injection: errors, stalls, corrupt content, cut connections, authentication."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from tests.support.containers.images import Built, index_of

from podfit.images.content.digests import sha256
from podfit.images.content.manifests import OCI_INDEX, OCI_MANIFEST

_ERRORS = {
    401: ("UNAUTHORIZED", "authentication required"),
    403: ("DENIED", "requested access to the resource is denied"),
    404: ("MANIFEST_UNKNOWN", "manifest unknown"),
    429: ("TOOMANYREQUESTS", "You have reached your pull rate limit."),
    500: ("UNKNOWN", "unknown error"),
}


@dataclass
class Fault:
    """A fault that is injected into requests whose path matches."""

    path: str
    status: int = 0
    cut_after: int = -1
    """Bytes of each response sent before the connection is cut."""
    stall_after: int = -1
    """Bytes sent before the response stalls."""
    corrupt: bool = False
    """Changes the first byte."""
    redirect: str = ""
    times: int = -1
    """How often to inject it; -1 for always."""
    digest: str = ""
    """The value of Docker-Content-Digest."""


class LoopbackRegistry:
    def __init__(self, tls: ssl.SSLContext | None = None, listener: socket.socket | None = None) -> None:
        """`listener`: a socket to accept connections on, for example one in another network namespace."""
        self._tls, self._listener = tls, listener
        self.manifests: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.blobs: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.users: dict[str, str] = {}
        """Names and passwords; if empty, pulls need no credentials."""
        self.scheme = "bearer"
        """The authentication scheme: bearer (with a token server) or basic."""
        self.ranges = True
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self._tokens: set[str] = set()
        self._runner: web.AppRunner | None = None
        self.host = ""
        self._ending = asyncio.Event()

    async def __aenter__(self) -> LoopbackRegistry:
        app = web.Application()
        app.router.add_get("/token", self._token)
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        listener = self._listener or socket.create_server(("127.0.0.1", 0))
        await web.SockSite(self._runner, listener, ssl_context=self._tls).start()
        address, port = self._runner.addresses[0][:2]
        self.host = f"{address}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def push(self, name: str, image: Built, others: Mapping[str, Built] | None = None) -> str:
        """Adds an image as `repository:tag`; returns the full reference. `others`: adds an index with these
        architectures and this one."""
        repository, _, tag = name.partition(":")
        self.blobs |= image.blobs
        self.manifests[repository, image.digest] = (image.manifest, OCI_MANIFEST)
        top, kind = image.manifest, OCI_MANIFEST
        if others is not None:
            from podfit.images.content.manifests import this_platform

            top, kind = index_of({**others, this_platform().architecture: image}), OCI_INDEX
        for which in (tag, sha256(top)):
            self.manifests[repository, which] = (top, kind)
        return f"{self.host}/{name}"

    def paths(self, what: str = "") -> list[str]:
        return [path for path, _ in self.requests if what in path]

    # --- answers
    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.path, dict(request.headers)))
        if not self._allowed(request):
            return self._challenge(request)
        if request.path == "/v2/":
            return web.Response()
        fault = self._fault(request.path)
        if fault is not None and fault.redirect:
            return web.Response(status=307, headers={"Location": fault.redirect})
        if fault is not None and fault.status:
            return _error(fault.status)
        found = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/(.+)", request.path)
        if found is None:
            return _error(404)
        repository, kind, which = found.groups()
        if kind == "manifests":
            if (repository, which) not in self.manifests:
                return _error(404)
            content, media_type = self.manifests[repository, which]
            headers = {"Content-Type": media_type, "Docker-Content-Digest": sha256(content)}
            if fault is not None and fault.digest:
                headers["Docker-Content-Digest"] = fault.digest
            return await self._send(request, content, headers, fault)
        if which not in self.blobs:
            return _error(404)
        return await self._send(request, self.blobs[which], {"Content-Type": "application/octet-stream"}, fault)

    async def _send(
        self, request: web.Request, content: bytes, headers: dict[str, str], fault: Fault | None
    ) -> web.StreamResponse:
        status, start = 200, 0
        found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        if found is not None and self.ranges:
            start = int(found[1])
            if start >= len(content):
                return _error(416)
            status = 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if fault is not None and fault.corrupt:
            content = bytes([content[0] ^ 1]) + content[1:]
        content = content[start:]
        response = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(content))})
        await response.prepare(request)
        if fault is None or max(fault.cut_after, fault.stall_after) < 0:
            await response.write(content)
        elif fault.stall_after >= 0:
            await response.write(content[: fault.stall_after])
            await self._ending.wait()
        else:
            await response.write(content[: fault.cut_after])
            if request.transport is not None:
                request.transport.close()
        return response

    def _fault(self, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times != 0 and re.search(fault.path, path):
                fault.times -= 1 if fault.times > 0 else 0
                return fault
        return None

    # --- authentication
    def _allowed(self, request: web.Request) -> bool:
        if not self.users:
            return True
        scheme, _, value = request.headers.get("Authorization", "").partition(" ")
        if self.scheme == "bearer":
            return scheme == "Bearer" and value in self._tokens
        return scheme == "Basic" and self._known(value)

    def _known(self, value: str) -> bool:
        name, _, password = base64.b64decode(value).decode().partition(":")
        return name in self.users and self.users[name] == password

    def _challenge(self, request: web.Request) -> web.Response:
        ask = 'Basic realm="tests"'
        if self.scheme == "bearer":
            ask = f'Bearer realm="http://{request.host}/token",service="tests",scope="repository:any:pull"'
        return _error(401, {"WWW-Authenticate": ask})

    async def _token(self, request: web.Request) -> web.Response:
        self.requests.append((request.path_qs, dict(request.headers)))
        scheme, _, value = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Basic" or not self._known(value):
            return _error(401)
        token = secrets.token_hex(8)
        self._tokens.add(token)
        return web.json_response({"token": token})


def _error(status: int, headers: Mapping[str, str] | None = None) -> web.Response:
    code, message = _ERRORS.get(status, ("UNKNOWN", "error"))
    body: dict[str, Any] = {"errors": [{"code": code, "message": message}]}
    return web.json_response(body, status=status, headers=headers)
