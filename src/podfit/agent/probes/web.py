"""The subset of HTTP that a node needs for probes and hooks: GET with a deadline, and named ports."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from podfit.kit.web.addresses import bracketed


def port_number(port: object, container: Mapping[str, Any]) -> int:
    """A port of the spec: a number, or the name of one of the container's ports."""
    if isinstance(port, int):
        return port
    text = str(port)
    if text.isdigit():
        return int(text)
    for known in container.get("ports") or ():
        if known.get("name") == text:
            return int(known["containerPort"])
    raise ValueError(f"couldn't find port: {text}")


PROBE_AGENT, LIFECYCLE_AGENT = "kube-probe/1.36", "kube-lifecycle/1.36"
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS, _MOST_HEADERS = 10, 200


class NoAnswer(Exception):
    """No HTTP response; the message is worded as by the kubelet's HTTP client."""


async def get_status(
    ask: Mapping[str, Any], host: str, port: int, timeout_s: float, user_agent: str = PROBE_AGENT
) -> int:
    """Like `http_get`, but raises a single kind of failure."""
    address = f"{bracketed(host)}:{port}"
    path = "/" + str(ask.get("path") or "/").removeprefix("/")
    what = f'Get "{str(ask.get("scheme") or "HTTP").lower()}://{address}{path}"'
    try:
        return await http_get(ask, host, port, timeout_s, user_agent)
    except TimeoutError as error:
        late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        raise NoAnswer(f"{what}: {late}") from error
    except ConnectionError as error:
        raise NoAnswer(f"{what}: dial tcp {address}: connect: {reason(error)}") from error
    except OSError as error:
        raise NoAnswer(f"{what}: {error}") from error


def reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)


async def http_get(
    ask: Mapping[str, Any], host: str, port: int, timeout_s: float, user_agent: str = PROBE_AGENT
) -> int:
    """The status of a GET; certificates are not verified, as for any probe.

    A redirect is followed while it stays on the host: one to another host counts as the response.
    """
    secure = str(ask.get("scheme") or "HTTP").upper() == "HTTPS"
    url = f"http{'s' if secure else ''}://{bracketed(host)}:{port}/{str(ask.get('path') or '').removeprefix('/')}"
    headers = {"User-Agent": user_agent, "Accept": "*/*"}
    headers.update({header["name"]: header["value"] for header in ask.get("httpHeaders") or ()})
    async with asyncio.timeout(timeout_s):
        for _ in range(_MOST_REDIRECTS):
            status, location = await _get(url, headers)
            following = urljoin(url, location) if location and status in _REDIRECTS else ""
            if not following or urlsplit(following).hostname != urlsplit(url).hostname:
                return status
            url = following
    raise OSError(f"stopped after {_MOST_REDIRECTS} redirects")


async def _get(url: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """The status and the Location header of one response."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    sent = {"Host": f"{bracketed(host)}:{port}", "Connection": "close", **headers}
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"GET {target} HTTP/1.1", *(f"{key}: {value}" for key, value in sent.items())]
    reader, writer = await asyncio.open_connection(host, port, ssl=_unchecked() if parts.scheme == "https" else None)
    try:
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await writer.drain()
        first = (await reader.readline()).split()
        if len(first) < 2 or not first[1].isdigit():
            raise OSError("not an HTTP answer")
        return int(first[1]), await _location(reader) if int(first[1]) in _REDIRECTS else ""
    finally:
        writer.close()


async def _location(reader: asyncio.StreamReader) -> str:
    for _ in range(_MOST_HEADERS):
        name, _, value = (await reader.readline()).decode("latin-1").partition(":")
        if not name.strip():
            break
        if name.strip().lower() == "location":
            return value.strip()
    return ""


def _unchecked() -> ssl.SSLContext:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls
