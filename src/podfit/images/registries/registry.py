"""A client of one registry (OCI distribution, version 2) for the duration of one pull.

Only fetches manifests and blobs; the digests of manifests are verified here, those of blobs by the caller. Redirects
are followed by hand: credentials are never sent to another host, nor from https to http.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Collection
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp

from podfit.images.content.manifests import ACCEPTED, MAX_DOCUMENT
from podfit.images.errors import PullFailed
from podfit.images.references import DOCKER
from podfit.images.registries import auth
from podfit.images.registries.credentials import Credentials

_DOCKER_HOST = "registry-1.docker.io"
_REDIRECTS = 10
_CONNECT_S = 15.0
_ANSWERS = 2
"""A manifest may take at most this multiple of the inactivity timeout, however it trickles."""
_MESSAGE = 1024
"""The length to which a registry's own error message is truncated."""
NETWORK = (aiohttp.ClientError, TimeoutError, asyncio.TimeoutError, OSError)


class NotFound(PullFailed):
    """The registry responded with 404."""


class CannotResume(PullFailed):
    """The registry responded with 416: it cannot resume the download."""


class Denied(PullFailed):
    """The registry responded with 401 or 403."""


class Registry:
    def __init__(self, host: str, credentials: Credentials | None, insecure: Collection[str], stall_s: float) -> None:
        self._answer_s = _ANSWERS * stall_s
        self._host = _DOCKER_HOST if host == DOCKER else host
        self._credentials = credentials
        self._open = is_loopback(host) or host in insecure
        """Plain http, or https with an unverified certificate, is allowed."""
        self._base = "" if self._open else f"https://{self._host}"
        self._authorization: dict[str, str] = {}
        """Authorization headers by repository."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=stall_s)
        self._session = aiohttp.ClientSession(
            timeout=timeout, auto_decompress=False, headers={"User-Agent": "podfit", "Accept-Encoding": "identity"}
        )

    async def close(self) -> None:
        await self._session.close()

    async def manifest(self, repository: str, which: str) -> tuple[bytes, str, str]:
        """Fetches a manifest by tag or digest: its bytes, media type, and the digest sent by the registry ("" if
        none)."""
        url = f"{await self._root()}/v2/{repository}/manifests/{which}"
        accept = {"Accept": ", ".join(ACCEPTED)}
        async with asyncio.timeout(self._answer_s), self._get(url, repository, accept) as response:
            data = await _limited(response)
            return data, response.content_type, response.headers.get("Docker-Content-Digest", "")

    @contextlib.asynccontextmanager
    async def blob(self, repository: str, digest: str, start: int) -> AsyncIterator[tuple[aiohttp.StreamReader, int]]:
        """The content from `start` on, and its actual start: a registry may not support resuming."""
        url = f"{await self._root()}/v2/{repository}/blobs/{digest}"
        headers = {"Range": f"bytes={start}-"} if start else {}
        async with self._get(url, repository, headers) as response:
            yield response.content, _resumed_at(response, start)

    # --- requests
    async def _root(self) -> str:
        """The registry's base URL. For a registry that may use plain http, detects whether it does."""
        if not self._base:
            for scheme in ("http", "https"):
                with contextlib.suppress(*NETWORK):
                    async with self._send("GET", f"{scheme}://{self._host}/v2/", {}) as response:
                        if response.status != 400:  # as servers of https answer to http
                            self._base = f"{scheme}://{self._host}"
                            return self._base
            self._base = f"http://{self._host}"
        return self._base

    @contextlib.asynccontextmanager
    async def _get(self, url: str, repository: str, headers: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        async with contextlib.AsyncExitStack() as held:
            response = await held.enter_async_context(self._follow(url, repository, headers))
            if response.status == 401 and await self._authorize(repository, response):
                await held.aclose()
                response = await held.enter_async_context(self._follow(url, repository, headers))
            if response.status not in (200, 206):
                raise await _refusal(response)
            yield response

    @contextlib.asynccontextmanager
    async def _follow(
        self, url: str, repository: str, headers: dict[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        origin = _origin(url)
        for _ in range(_REDIRECTS):
            sent = dict(headers)
            if _origin(url) == origin and repository in self._authorization:
                sent["Authorization"] = self._authorization[repository]
            async with self._send("GET", url, sent) as response:
                target = response.headers.get("Location", "") if response.status in (301, 302, 303, 307, 308) else ""
                if not target:
                    yield response
                    return
                before, url = url, urljoin(url, target)
                if urlsplit(before).scheme == "https" and urlsplit(url).scheme != "https":
                    raise PullFailed(f"{_printable(before)} redirects to {_printable(url)}, which is not https")
        raise PullFailed(f"{_printable(url)} redirects more than {_REDIRECTS} times")

    def _send(self, method: str, url: str, headers: dict[str, str], **more: Any) -> Any:
        verify = not (self._open and urlsplit(url).netloc == self._host)
        return self._session.request(
            method, url, headers=headers, allow_redirects=False, ssl=verify, proxy=_proxy(url), **more
        )

    # --- authentication
    async def _authorize(self, repository: str, response: aiohttp.ClientResponse) -> bool:
        """Responds to a challenge; returns whether there are new credentials to send."""
        known, before = self._credentials, self._authorization.pop(repository, "")
        for challenge in auth.challenges(response.headers.getall("WWW-Authenticate", [])):
            found = ""
            if challenge.scheme == "bearer":
                found = f"Bearer {await self._token(challenge, repository)}"
            elif challenge.scheme == "basic" and known is not None and known.username:
                found = auth.basic(known)
            if found and found != before:
                self._authorization[repository] = found
                return True
        return False

    async def _token(self, challenge: auth.Challenge, repository: str) -> str:
        known, realm = self._credentials, challenge.parameters.get("realm", "")
        if known is not None and known.registry_token:
            return known.registry_token
        if urlsplit(realm).scheme != "https" and not (self._open and urlsplit(realm).scheme == "http"):
            raise PullFailed(f"failed to authorize: the registry sends us to {realm!r} for a token, which is not safe")
        query = {"scope": challenge.parameters.get("scope") or f"repository:{repository}:pull"}
        if service := challenge.parameters.get("service"):
            query["service"] = service
        if known is not None and known.identity_token:
            form = {
                "grant_type": "refresh_token",
                "refresh_token": known.identity_token,
                "client_id": "podfit",
                **query,
            }
            asking = self._send("POST", realm, {}, data=form)
        else:
            headers = {"Authorization": auth.basic(known)} if known is not None and known.username else {}
            asking = self._send("GET", realm, headers, params=query)
        async with asking as response:
            if response.status != 200:
                raise Denied(f"failed to authorize: failed to fetch token: {await _words(response)}")
            return _token_in(await _limited(response))


def is_loopback(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if re.search(r":\d+$", host) else host
    if name == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    return False


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _printable(url: str) -> str:
    """The URL without its query, which may contain a signature."""
    return url.partition("?")[0]


def _proxy(url: str) -> str | None:
    """The proxy for a URL, from HTTPS_PROXY, HTTP_PROXY and NO_PROXY."""
    parts = urlsplit(url)
    if not parts.hostname or is_loopback(parts.netloc) or urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _resumed_at(response: aiohttp.ClientResponse, start: int) -> int:
    if response.status != 206:
        return 0
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else start


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > MAX_DOCUMENT:
            raise PullFailed(f"{_printable(str(response.url))} answers with more than {MAX_DOCUMENT} bytes")
    return bytes(data)


def _token_in(data: bytes) -> str:
    with contextlib.suppress(ValueError, AttributeError):
        found = json.loads(data)
        token = found.get("token") or found.get("access_token")
        if isinstance(token, str) and token and token.isascii() and token.isprintable():
            return token
    raise PullFailed("failed to authorize: the token server's answer holds no token")


async def _refusal(response: aiohttp.ClientResponse) -> PullFailed:
    words = await _words(response)
    if response.status == 404:
        return NotFound("not found")
    if response.status == 416:
        return CannotResume(words)
    if response.status in (401, 403):
        why = "pull access denied, repository does not exist or may require authorization"
        return Denied(f"{why}: {words}")
    return PullFailed(f"unexpected status from GET request to {_printable(str(response.url))}: {words}")


async def _words(response: aiohttp.ClientResponse) -> str:
    """An error response in words: its status, and the registry's own message if it is text."""
    status = f"{response.status} {response.reason or ''}".strip()
    text = ""
    with contextlib.suppress(*NETWORK, PullFailed, ValueError, LookupError, TypeError, AttributeError):
        found = json.loads(await _limited(response))
        errors = found.get("errors") or [{"message": found.get("details") or found.get("message") or ""}]
        parts = [": ".join(str(error[key]) for key in ("code", "message") if error.get(key)) for error in errors]
        text = "; ".join(part for part in parts if part)
    clean = "".join(letter for letter in text[:_MESSAGE] if letter.isprintable())
    return f"{status}: {clean}" if clean else status
