"""Checks whether an admission webhook responds at the URL that the API server would use."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from typing import Any

import aiohttp

from podfit.api.registry.kinds import kind_named
from podfit.client import Client

MUTATING = kind_named("MutatingWebhookConfiguration")
NAME = "vpa-webhook-config"
TIMEOUT_S = 1.0


async def registered(client: Client) -> tuple[str, bytes]:
    """The registered URL of the webhook, and the authority of its certificate; empty for a Service.

    Raises ApiError, Unreachable.
    """
    found: Mapping[str, Any] = await client.find(MUTATING, "", NAME) or {}
    for hook in found.get("webhooks") or ():
        where = hook.get("clientConfig") or {}
        return where.get("url") or "", base64.b64decode(where.get("caBundle") or "")
    return "", b""


async def silence(url: str, authority: bytes) -> str:
    """Why the webhook at this URL does not respond; empty if it does. The timeout is as short as the API server's."""
    try:
        context = ssl.create_default_context(cadata=authority.decode() or None)
        connector = aiohttp.TCPConnector(ssl=context)
        async with asyncio.timeout(TIMEOUT_S), aiohttp.ClientSession(connector=connector) as session:
            async with session.get(url) as answer:
                await answer.read()
                return "" if answer.status < 500 else f"it answers with status {answer.status}"
    except TimeoutError:
        return f"no answer within {TIMEOUT_S:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return str(error) or type(error).__name__
