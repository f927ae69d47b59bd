"""Performs the actions that were decided: resizes, evictions, and annotations. Errors become messages, never
exceptions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, VPA
from podfit.api.status import ApiError
from podfit.client import Client, EventRecorder
from podfit.client.rest import JSON_PATCH
from podfit.client.transport import Unreachable
from podfit.kit.concurrency.tasks import Tasks
from podfit.vpa.model.changing.jsonpatch import Patch
from podfit.vpa.updater.decide.actions import Evict, Resize

log = logging.getLogger(__name__)

NOTES_AT_ONCE = 16


class UpdaterWrites:
    def __init__(self, client: Client, events: EventRecorder) -> None:
        self._client, self._events = client, events
        self._notes = Tasks("vpa-notes")
        self._gate = asyncio.Semaphore(NOTES_AT_ONCE)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def resize(self, action: Resize) -> tuple[Object | None, str | None]:
        """The pod as the server returned it, or the server's error."""
        namespace, name = _key(action.pod)
        try:
            answered = await self._client.patch(POD, namespace, name, action.patch, "resize", JSON_PATCH)
        except (ApiError, Unreachable) as error:
            return None, str(error)
        # The annotation names the updater. It is written in the background.
        note = self._notes.start(self._annotate(namespace, name, action.annotations), f"note on {namespace}/{name}")
        self._under_way.add(note)
        note.add_done_callback(self._under_way.discard)
        for event in action.events:
            self._events.record(_about(action.pod, "Pod"), event.type, event.reason, event.message)
        return answered, None

    async def _annotate(self, namespace: str, name: str, patch: Patch) -> None:
        async with self._gate:
            try:
                await self._client.patch(POD, namespace, name, patch, content_type=JSON_PATCH)
            except (ApiError, Unreachable) as error:
                log.info("note on pod %s/%s: %s", namespace, name, error)

    async def may_evict(self, pod: Mapping[str, Any]) -> str | None:
        """Checks with a dry run whether an eviction would be allowed now. None if it would, else why not."""
        return await self._evict(pod, dry_run=True)

    async def evict(self, action: Evict) -> str | None:
        refused = await self._evict(action.pod)
        if refused is not None:
            return refused
        for event in action.events:
            about = action.pod if event.kind == "Pod" else action.vpa
            self._events.record(_about(about, event.kind), event.type, event.reason, event.message)
        return None

    async def _evict(self, pod: Mapping[str, Any], dry_run: bool = False) -> str | None:
        namespace, name = _key(pod)
        options: Object = {"preconditions": {"uid": pod["metadata"].get("uid", "")}}
        if dry_run:
            options["dryRun"] = ["All"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        try:
            await self._client.create(POD, body, namespace, name, "eviction")
        except (ApiError, Unreachable) as error:
            return str(error)
        return None

    async def give_back(self, pod: tuple[str, str], vpa: Mapping[str, Any], patch: Patch, why: str) -> None:
        """Undoes a resize. Raises the server's error."""
        answered = await self._client.patch(POD, *pod, patch, "resize", JSON_PATCH)
        words = f"A resize was undone: {why}."
        self._events.record(answered, "Warning", "ResizeUndoneByVPA", words)
        self._events.record(_about(vpa, "VerticalPodAutoscaler"), "Warning", "ResizeUndone", f"Pod {pod[1]}: {words}")

    async def settle(self) -> None:
        """Waits for annotations that are still being written."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def stop(self) -> None:
        await self._notes.stop()


def _key(pod: Mapping[str, Any]) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"]


def _about(obj: Mapping[str, Any], kind: str) -> Object:
    version = VPA.api_version if kind == VPA.kind else "v1"
    return {"kind": kind, "apiVersion": version, "metadata": obj["metadata"]}
