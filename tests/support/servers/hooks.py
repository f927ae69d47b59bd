"""A webhook server for tests: HTTPS with its own certificate authority, and a response per path."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from podfit.api.objects import Object
from podfit.apiserver.auth.certs.certificates import Authority, new_authority

Answer = Callable[[Object], Object]
"""Maps a review's `request` to its `response`; the uid is added."""


class HookServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.asked: list[tuple[str, Object]] = []
        """(path, request) of all reviews, in the order received."""
        self.answers: dict[str, Answer] = {}
        self.ca = ""
        self.port = 0

    async def __aenter__(self) -> HookServer:
        pair = new_authority("hooks", timedelta(days=1))
        self.ca = base64.b64encode(pair.cert).decode()
        cert = Authority.load(pair).server("hook", ["localhost", "127.0.0.1", "hook.default.svc"], timedelta(days=1))
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "crt").write_bytes(cert.cert)
        (self._folder / "key").write_bytes(cert.key)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._folder / "crt", self._folder / "key")
        app = web.Application()
        app.router.add_post("/{name}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def client_config(self, name: str) -> Object:
        return {"url": f"https://localhost:{self.port}/{name}", "caBundle": self.ca}

    def configuration(self, kind: str, name: str, rules: list[Object], **more: Any) -> Object:
        """A webhook configuration with one webhook, which is called at `/<name>`."""
        hook = {
            "name": f"{name}.example.com",
            "clientConfig": self.client_config(name),
            "rules": rules,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        api_version = "admissionregistration.k8s.io/v1"
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "webhooks": [hook]}

    async def _handle(self, http: web.Request) -> web.StreamResponse:
        name, review = http.match_info["name"], await http.json()
        self.asked.append((name, review["request"]))
        answer = self.answers.get(name)
        response = {"allowed": True} if answer is None else answer(review["request"])
        made = {"uid": review["request"]["uid"], **response}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": made})
