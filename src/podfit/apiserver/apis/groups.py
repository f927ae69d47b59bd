"""Maintains an APIService for every group and version that custom resource definitions serve."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.apis.aggregation import API_SERVICE, AUTOMANAGED
from podfit.apiserver.apis.custom import DEFINITION, condition
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.storage.usable import problem_of, usable
from podfit.apiserver.writing.writes import Writer
from podfit.kit.concurrency.tasks import Tasks
from podfit.store.backend import Mismatch

_FOLLOWED = "true"
"""The label of APIServices for definitions; those of the server's own groups have another one."""


class CustomGroups:
    def __init__(self, objects: Objects, writer: Writer) -> None:
        self._objects, self._writer = objects, writer
        self._tasks = Tasks("custom groups")
        self._scheduled = False

    def changed(self, event: WatchEvent) -> None:
        """Called by the hub for each change."""
        if event.resource == DEFINITION.storage_prefix and not self._scheduled:
            self._scheduled = True
            self._tasks.start(self.follow(), "follow definitions")

    async def stop(self) -> None:
        await self._tasks.stop()

    async def follow(self) -> None:
        self._scheduled = False
        wanted = {f"{version}.{group}": (group, version) for group, version in self._served()}
        for name, (group, version) in wanted.items():
            if self._objects.record(API_SERVICE, "", name) is None:
                await self._writer.install(API_SERVICE, "", _service(name, group, version))
        for service in usable(API_SERVICE, self._objects.list(API_SERVICE)):
            meta = service["metadata"]
            if (meta.get("labels") or {}).get(AUTOMANAGED) == _FOLLOWED and meta["name"] not in wanted:
                await self._remove(meta["name"])

    def _served(self) -> set[tuple[str, str]]:
        return {
            (definition["spec"]["group"], version["name"])
            for definition in self._objects.list(DEFINITION)
            if condition(definition, "Established") == "True" and not problem_of(DEFINITION, definition)
            for version in definition["spec"]["versions"]
            if version.get("served")
        }

    async def _remove(self, name: str) -> None:
        record = self._objects.record(API_SERVICE, "", name)
        if record is not None:
            try:
                await self._objects.store.delete(record.key, record.modified)
            except Mismatch:
                return


def _service(name: str, group: str, version: str) -> Object:
    return {
        "apiVersion": API_SERVICE.api_version,
        "kind": API_SERVICE.kind,
        "metadata": {"name": name, "labels": {AUTOMANAGED: _FOLLOWED}},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100},
    }
