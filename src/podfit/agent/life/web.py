"""The little HTTP a node needs to ask containers: GET with a deadline, and ports by name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any


def port_number(port: object, container: Mapping[str, Any]) -> int:
    """A port as the spec has it: a number, or the name of one of the container's ports."""
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


async def http_get(
    ask: Mapping[str, Any], host: str, port: int, timeout_s: float, user_agent: str = PROBE_AGENT
) -> int:
    """The status of a GET; certificates are not checked, as with any probe."""
    tls = None
    if str(ask.get("scheme") or "HTTP").upper() == "HTTPS":
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    headers = {"Host": f"{host}:{port}", "User-Agent": user_agent, "Accept": "*/*", "Connection": "close"}
    headers.update({one["name"]: one["value"] for one in ask.get("httpHeaders") or ()})
    path = ask.get("path") or "/"
    lines = [f"GET {path if path.startswith('/') else '/' + path} HTTP/1.1"]
    lines += [f"{key}: {value}" for key, value in headers.items()]
    request = ("\r\n".join(lines) + "\r\n\r\n").encode()
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port, ssl=tls)
        try:
            writer.write(request)
            await writer.drain()
            first = await reader.readline()
        finally:
            writer.close()
    parts = first.split()
    if len(parts) < 2 or not parts[1].isdigit():
        raise OSError("not an HTTP answer")
    return int(parts[1])
