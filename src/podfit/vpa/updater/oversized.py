"""Maintains a condition on autoscalers whose target exceeds every node: their pods get what the largest node
can hold."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from podfit.api.objects import ObjectView
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import VPA
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.rest import JSON_PATCH
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, rfc3339
from podfit.vpa.model.objects.pods import condition
from podfit.vpa.model.objects.policy import RESOURCES, container_recommendations
from podfit.vpa.model.room import RoomLedger, amount, shown

log = logging.getLogger(__name__)

CONDITION, REASON = "TargetExceedsNodes", "LargestNodeTooSmall"


def exceeding(vpa: ObjectView, ledger: RoomLedger) -> str:
    """A message about the part of the target that no node can hold; empty if a node can hold all of it."""
    needed = {"pods": 1}
    for resource in RESOURCES:
        texts = [(entry.get("target") or {}).get(resource) for entry in container_recommendations(vpa)]
        needed[resource] = sum(amount(resource, Quantity.parse(text)) for text in texts if text)
    largest = ledger.largest_for({"tolerations": [{"operator": "Exists"}]}, needed)
    if largest is None:
        return ""
    node, room = largest
    over = [
        f"{shown(resource, needed[resource])} of {resource}, of which node {node} can hold {shown(resource, most)}"
        for resource in RESOURCES
        if (most := room.get(resource, needed[resource])) < needed[resource]
    ]
    if not over:
        return ""
    return (
        f"The target is more than any node can hold: {'; '.join(over)}. Pods get what the largest node can hold. "
        "A larger node or a maxAllowed below this would change that."
    )


class Oversized:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock

    async def report(self, vpas: Iterable[ObjectView], ledger: RoomLedger) -> None:
        """Adds or removes the condition where that is needed; writes nothing that is up to date."""
        for vpa in vpas:
            words, standing = exceeding(vpa, ledger), condition(vpa, CONDITION)
            if (words or None) != (standing or {}).get("message") and (words or standing):
                await self._write(vpa, words, standing)

    async def _write(self, vpa: ObjectView, words: str, standing: ObjectView | None) -> None:
        meta, status = vpa["metadata"], vpa.get("status") or {}
        kept = [known for known in status.get("conditions") or () if known.get("type") != CONDITION]
        if words:
            since = (standing or {}).get("lastTransitionTime") or rfc3339(self._clock.now())
            kept.append(
                {"type": CONDITION, "status": "True", "lastTransitionTime": since, "reason": REASON, "message": words}
            )
        kept.sort(key=lambda row: str(row.get("type")))
        # The recommender writes the other conditions, and its concurrent writes must not be lost.
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": meta.get("resourceVersion")},
            {"op": "add", "path": "/status/conditions", "value": kept},
        ]
        try:
            await self._client.patch(VPA, meta.get("namespace", ""), meta["name"], patch, "status", JSON_PATCH)
        except (ApiError, Unreachable) as error:
            log.info("condition %s of autoscaler %s/%s: %s", CONDITION, meta.get("namespace", ""), meta["name"], error)
