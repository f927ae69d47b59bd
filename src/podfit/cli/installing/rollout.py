"""Checks after the manifests were applied whether everything runs, and what prevents it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.client.rest import Client

_DEPLOYMENT, _DEFINITION = kind_named("Deployment"), kind_named("CustomResourceDefinition")
_WEBHOOK = kind_named("MutatingWebhookConfiguration")
_WEBHOOK_NAME = "vpa-webhook-config"
_PAUSE_S = 1.0


async def works(client: Client, bodies: list[Object], report: Callable[[str], None], timeout_s: float) -> bool:
    """Waits until everything runs; reports each problem once. False on timeout."""
    reported: set[str] = set()
    try:
        async with asyncio.timeout(timeout_s):
            while obstacles := await _obstacles(client, bodies):
                for obstacle in obstacles:
                    if obstacle not in reported:
                        reported.add(obstacle)
                        report(obstacle)
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        return False
    return True


async def _obstacles(client: Client, bodies: list[Object]) -> list[str]:
    checks: dict[str, Callable[[Client, Object], Awaitable[list[str]]]] = {
        "CustomResourceDefinition": _definition,
        "Deployment": _deployment,
    }
    found = [why for body in bodies if body["kind"] in checks for why in await checks[body["kind"]](client, body)]
    if not found and await client.find(_WEBHOOK, "", _WEBHOOK_NAME) is None:
        return ["waiting for the admission webhook to register itself"]
    return found


async def _definition(client: Client, body: Object) -> list[str]:
    name = body["metadata"]["name"]
    found = await client.get(_DEFINITION, "", name)
    rows = (found.get("status") or {}).get("conditions") or []
    if any(row["type"] == "Established" and row["status"] == "True" for row in rows):
        return []
    return [f"waiting for definition {name} to be established"]


async def _deployment(client: Client, body: Object) -> list[str]:
    meta = body["metadata"]
    found = await client.get(_DEPLOYMENT, meta["namespace"], meta["name"])
    if is_rolled_out(found):
        return []
    labels = ",".join(f"{key}={value}" for key, value in body["spec"]["selector"]["matchLabels"].items())
    pods = (await client.list(POD, meta["namespace"], labelSelector=labels)).get("items") or []
    return [f"waiting for deployment {meta['name']}", *(why for pod in pods for why in why_waiting(pod))]


def is_rolled_out(deployment: Object) -> bool:
    status, wanted = deployment.get("status") or {}, deployment["spec"].get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    counts = (status.get(field, 0) for field in ("updatedReplicas", "availableReplicas"))
    return seen and all(count >= wanted for count in counts)


def why_waiting(pod: Object) -> list[str]:
    """The reason why a pod's containers do not run, according to its status."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    found = [
        f"pod {name}: {condition['reason']}: {condition.get('message', '')}"
        for condition in status.get("conditions") or []
        if condition["type"] == "PodScheduled" and condition["status"] == "False" and condition.get("reason")
    ]
    for container_status in status.get("containerStatuses") or []:
        waiting = (container_status.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            found.append(f"pod {name}: {waiting['reason']}: {waiting.get('message', '')}")
    return found
