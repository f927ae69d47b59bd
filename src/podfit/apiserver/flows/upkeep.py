"""Maintains the condition `Dangling` of flow schemas, and the default schemas and levels.

A schema's condition is written before the write of the schema is answered. When a priority level is added or removed,
the schemas that name it are updated. Mandatory schemas and levels are recreated as soon as they are deleted; a minute
after any change, all default ones are, and get their spec back unless an administrator has opted out.
"""

from __future__ import annotations

import contextlib

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.status import go_quote
from podfit.apiserver.representation import wire
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import usable
from podfit.apiserver.strategy.flows.mandatory import MANDATORY, defaults, is_unwanted, revised
from podfit.apiserver.writing.writes import Writer
from podfit.kit.clock import rfc3339
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Mismatch

SCHEMA, LEVEL = kind_named("FlowSchema"), kind_named("PriorityLevelConfiguration")
FOLLOWED = (SCHEMA.storage_prefix, LEVEL.storage_prefix)
_DANGLING = "Dangling"
_UPKEEP_S = 60


class FlowUpkeep:
    def __init__(self, objects: Objects, writer: Writer) -> None:
        self._objects, self._writer = objects, writer
        self._tasks = Tasks("flow upkeep")
        self._waiting = False
        """Whether a reconciliation is already scheduled."""
        writer.after_write[SCHEMA.storage_prefix] = self.settle

    async def stop(self) -> None:
        await self._tasks.stop()

    def changed(self, event: WatchEvent) -> None:
        """Called by the hub for each change."""
        kind = SCHEMA if event.resource == SCHEMA.storage_prefix else LEVEL
        gone = event.new is None and event.old is not None
        if gone and event.old["metadata"]["name"] in MANDATORY:  # type: ignore[index]
            self._tasks.start(self.restore(), "restore mandatory flow objects")
        if kind is LEVEL and (gone or event.old is None):
            self._tasks.start(self.settle_all(), "settle flow schemas")
        if not self._waiting:
            self._waiting = True
            self._tasks.start(self._reconcile_later(), "reconcile default flow objects")

    async def restore(self) -> None:
        for obj in defaults():
            kind, name = _kind(obj), obj["metadata"]["name"]
            if name in MANDATORY and self._objects.record(kind, "", name) is None:
                await self._writer.install(kind, "", {**obj, "metadata": dict(obj["metadata"])})
        await self.settle_all()

    async def reconcile(self) -> None:
        """Recreates default objects, updates those that follow this server, and deletes those of other versions."""
        for obj in defaults():
            kind = _kind(obj)
            record = self._objects.record(kind, "", obj["metadata"]["name"])
            if record is None:
                await self._writer.install(kind, "", {**obj, "metadata": dict(obj["metadata"])})
            elif (changed := revised(self._objects.decoded(record), obj)) is not None:
                with contextlib.suppress(Mismatch):
                    await self._objects.put(kind, record.key, changed, record.modified)
        for kind in (SCHEMA, LEVEL):
            for stored in usable(kind, self._objects.list(kind)):
                if is_unwanted(stored):
                    with contextlib.suppress(Mismatch):
                        await self._objects.store.delete(kind.key("", stored["metadata"]["name"]))
        await self.settle_all()

    async def _reconcile_later(self) -> None:
        await self._objects.clock.sleep(_UPKEEP_S)
        self._waiting = False
        await self.reconcile()

    async def settle_all(self) -> None:
        for schema in usable(SCHEMA, self._objects.list(SCHEMA)):
            await self.settle(schema)

    async def settle(self, schema: Object) -> None:
        """Writes the condition of a schema if it differs from the stored one."""
        record = self._objects.record(SCHEMA, "", schema["metadata"]["name"])
        if record is None:
            return
        stored = wire.object_of(record)
        wanted = self._condition(stored)
        rows = (stored.get("status") or {}).get("conditions") or []
        known: Object = next((row for row in rows if row.get("type") == _DANGLING), {})
        if all(known.get(field) == wanted[field] for field in ("status", "reason", "message")):
            return
        kept = [row for row in rows if row.get("type") != _DANGLING]
        stored["status"] = {**(stored.get("status") or {}), "conditions": [*kept, wanted]}
        try:
            await self._objects.put(SCHEMA, record.key, stored, record.modified)
        except Mismatch:
            return  # A newer version was written; its writer updates the condition.

    def _condition(self, schema: Object) -> Object:
        level = ((schema.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name", "")
        found = self._objects.record(LEVEL, "", level) is not None
        words = "and it exists" if found else "but there is no such object"
        text = f"This FlowSchema references the PriorityLevelConfiguration object named {go_quote(level)} {words}"
        return {
            "type": _DANGLING,
            "status": "False" if found else "True",
            "lastTransitionTime": rfc3339(self._objects.clock.now()),
            "reason": "Found" if found else "NotFound",
            "message": text,
        }


def _kind(obj: Object) -> Kind:
    return SCHEMA if obj["kind"] == SCHEMA.kind else LEVEL
