"""Calls webhooks over HTTPS, by URL or by the address of a Service.

A hook in this process is called directly: a TLS connection would cost a millisecond per new pod.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

from podfit.api.objects import Object
from podfit.apiserver.proxying.dialing import why_not

MAX_ANSWER = 3 << 20
DEFAULT_TIMEOUT_S = 10

ResolveService = Callable[[str, str, int], tuple[str, int] | None]
"""Resolves (namespace, name, port) of a Service to a host and port; None if the Service has no address."""


class Hook(Protocol):
    """A hook in this process."""

    def may_skip(self, resource: tuple[str, str], namespace: str, obj: Object | None) -> bool:
        """Whether the hook would admit an object of a resource (group, plural) unchanged. Called for every write: must
        be fast."""

    async def answer_here(self, review: Object) -> Object:
        """Returns the response to an AdmissionReview, which is not modified."""


class CallFailed(Exception):
    """The webhook could not be called; the text is the reason shown to clients."""


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    server_name: str | None
    """The name that the certificate must have, if it is not the host of the URL."""
    ca: bytes
    shown: str
    """The URL as shown in errors."""


class WebhookCaller:
    """Keeps connections to hooks open between calls. Must be closed."""

    def __init__(self, resolve_service: ResolveService) -> None:
        self._resolve = resolve_service
        self.hook_here: Callable[[str], Hook | None] = lambda url: None
        """Returns the hook of this process that serves a URL; it is called without a socket."""
        self._session: aiohttp.ClientSession | None = None

    def may_skip(
        self, config: Object, timeout_s: int, resource: tuple[str, str], namespace: str, obj: Object | None
    ) -> bool:
        """Whether a hook of this process need not be called."""
        url = config.get("url")
        here = self.hook_here(_at_url(url, str(config.get("caBundle") or ""), timeout_s).url) if url else None
        return here is not None and here.may_skip(resource, namespace, obj)

    async def post(self, config: Object, review: Object, timeout_s: int) -> bytes | Object:
        """Returns the response: the received bytes, or the object from a hook in this process."""
        target = self._target(config, timeout_s)
        here = self.hook_here(target.url)
        if here is not None:
            return await _ask_here(here, target, review, timeout_s)
        body = msgspec.json.encode(review)
        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=True)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(self._session, target, body)
        except TimeoutError:
            raise CallFailed(f'Post "{target.shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ssl.SSLError) as error:
            raise CallFailed(f'Post "{target.shown}": {why_not(error)}') from None

    async def _exchange(self, session: aiohttp.ClientSession, target: Target, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if target.server_name:
            headers["Host"] = target.server_name
        async with session.post(
            target.url,
            data=body,
            headers=headers,
            ssl=_tls(target.ca),
            server_hostname=target.server_name,
            allow_redirects=False,
        ) as response:
            answer = await response.content.read(MAX_ANSWER + 1)
            if len(answer) > MAX_ANSWER:
                raise CallFailed("webhook response is too large")
            if not 200 <= response.status < 300:
                raise CallFailed(_refused(response.status, answer))
            return answer

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _target(self, config: Object, timeout_s: int) -> Target:
        bundle = str(config.get("caBundle") or "")
        url = config.get("url")
        if url:
            return _at_url(url, bundle, timeout_s)
        ca = _certificates(bundle)
        service = config.get("service") or {}
        namespace, name = service.get("namespace", ""), service.get("name", "")
        port = int(service.get("port") or 443)
        host = f"{name}.{namespace}.svc"
        path = "/" + str(service.get("path") or "").lstrip("/")
        shown = f"https://{host}:{port}{path}?timeout={timeout_s}s"
        address = self._resolve(namespace, name, port)
        if address is None:
            raise CallFailed(f'Post "{shown}": no endpoints available for service "{name}"')
        where = f"[{address[0]}]" if ":" in address[0] else address[0]
        return Target(f"https://{where}:{address[1]}{path}?timeout={timeout_s}s", host, ca, shown)


@lru_cache(maxsize=64)
def _at_url(url: str, bundle: str, timeout_s: int) -> Target:
    parts = urlsplit(url)
    query = f"{parts.query}&timeout={timeout_s}s" if parts.query else f"timeout={timeout_s}s"
    full = urlunsplit((parts.scheme, parts.netloc, parts.path or "/", query, ""))
    return Target(full, None, _certificates(bundle), full)


@lru_cache(maxsize=64)
def _certificates(bundle: str) -> bytes:
    try:
        return base64.b64decode("".join(bundle.split()), validate=True)
    except ValueError:
        raise CallFailed("unable to load root certificates: unable to parse bytes as PEM block") from None


async def _ask_here(hook: Hook, target: Target, review: Object, timeout_s: int) -> Object:
    try:
        async with asyncio.timeout(timeout_s):
            return await hook.answer_here(review)
    except TimeoutError:
        raise CallFailed(f'Post "{target.shown}": context deadline exceeded') from None
    except Exception as error:
        raise CallFailed(_refused(500, str(error).encode())) from error


@lru_cache(maxsize=64)
def _tls(ca: bytes) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii") if ca else None)
    except (ssl.SSLError, ValueError):
        raise CallFailed("unable to load root certificates: unable to parse bytes as PEM block") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Python's stricter default rejects CAs without key identifiers, which tools for hook certificates often omit.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return context


def _refused(status: int, answer: bytes) -> str:
    text = answer[:1024].decode("utf-8", "replace").strip()
    if status >= 500:
        return f'an error on the server ("{text or "unknown"}") has prevented the request from succeeding'
    if status == 404:
        return "the server could not find the requested resource"
    return f"the server responded with the status code {status} but did not return more information"
