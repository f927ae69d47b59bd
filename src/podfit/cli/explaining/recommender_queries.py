"""Queries the recommender for the calculation of its numbers, and the updater for its decisions, if they are reachable.

`podfit up` records on checkpoints where its recommender listens, which also serves the updater's decisions (only
addresses of this machine are used); in a cluster both are reached through the API server, by the Services of
deploy/vpa. A given address comes before both: a recommender that reads Prometheus writes no checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.transport import Unreachable
from podfit.vpa.recommender.serving.explain import LISTENS, SETTINGS

SERVICE = "/api/v1/namespaces/kube-system/services/http:vpa-recommender:8942/proxy"
UPDATER = "/api/v1/namespaces/kube-system/services/http:vpa-updater:8943/proxy"
HERE = ("127.0.0.1", "::1", "localhost")
TIMEOUT_S = 2.0


async def recommender_explanation(
    client: Client, vpa: Object, checkpoints: Iterable[Object], address: str = ""
) -> tuple[dict[str, Any] | None, str]:
    """The response of the recommender's `/explain`; None and the reason, if known, if there is no response."""
    path = f"/explain/{vpa['metadata']['namespace']}/{vpa['metadata']['name']}"
    url = address.rstrip("/") or noted_url(vpa, checkpoints)
    return await _here(url, path) if url else (await _through_server(client, SERVICE + path, "containers"), "")


async def updater_explanation(
    client: Client, vpa: Object, checkpoints: Iterable[Object], address: str = ""
) -> dict[str, Any] | None:
    """The response of the updater's `/why-not` about pods that its last pass skipped; None without a response."""
    path = f"/why-not/{vpa['metadata']['namespace']}/{vpa['metadata']['name']}"
    url = address.rstrip("/") or noted_url(vpa, checkpoints)
    return (await _here(url, path))[0] if url else await _through_server(client, UPDATER + path, "pods")


def noted_url(vpa: Object, checkpoints: Iterable[Object]) -> str:
    name = vpa["metadata"]["name"]
    for checkpoint in checkpoints:
        if (checkpoint.get("spec") or {}).get("vpaObjectName") != name:
            continue
        try:
            settings = json.loads((checkpoint["metadata"].get("annotations") or {}).get(SETTINGS) or "{}")
            url = urlsplit(str(settings.get(LISTENS) or ""))
        except (ValueError, AttributeError):
            continue
        if url.scheme == "http" and url.hostname in HERE:
            return f"http://{url.netloc}"
    return ""


async def _here(url: str, path: str) -> tuple[dict[str, Any] | None, str]:
    import aiohttp

    try:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url + path) as answer:
            found = await answer.json() if answer.status == 200 else None
    except TimeoutError:
        return None, f"The recommender at {url} did not answer within {TIMEOUT_S:g} s: it is busy or hangs."
    except (aiohttp.ClientError, ValueError):
        return None, f"The recommender at {url} does not answer: nothing listens there."
    return (
        (found, "") if isinstance(found, dict) else (None, f"The recommender at {url} does not know this autoscaler.")
    )


async def _through_server(client: Client, path: str, expected: str) -> dict[str, Any] | None:
    try:
        found = await client.raw("GET", path)
    except (ApiError, Unreachable):
        return None
    return found if isinstance(found, dict) and expected in found else None
