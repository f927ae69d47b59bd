"""Protects a VolumeAttributesClass from deletion while a claim or a volume has it, or is to get it."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.controllers.context import ControllerContext
from podfit.controllers.protection.claims import CLAIM
from podfit.controllers.protection.finalizers import Finalizer
from podfit.controllers.protection.volumes import VOLUME
from podfit.reconcile import DONE, Engine, Result

CLASS = kind_named("VolumeAttributesClass")
_FINALIZER = Finalizer(CLASS, "kubernetes.io/vac-protection")


class AttributesClassProtectionController:
    name = "volumeattributesclass-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client, self._classes = context.client, context.cache(CLASS)
        self._users = tuple(context.cache(kind) for kind in (CLAIM, VOLUME))
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._classes.subscribe(self._changed)
        for cache in self._users:
            cache.subscribe(self._user_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None and (_FINALIZER.held(after) or _FINALIZER.lacking(after)):
            self._engine.add(after["metadata"]["name"])

    def _user_changed(self, before: Object | None, after: Object | None) -> None:
        for name in classes_of(before) - classes_of(after):
            self._engine.add(name)

    async def _reconcile(self, name: str) -> Result:
        found = self._classes.get("", name)
        if found is None:
            return DONE
        if _FINALIZER.held(found):
            if not any(name in classes_of(user) for cache in self._users for user in cache):
                await _FINALIZER.remove(self._client, found)
        elif _FINALIZER.lacking(found):
            await _FINALIZER.add(self._client, found)
        return DONE


def classes_of(user: Object | None) -> set[str]:
    """The attribute classes that a claim or a volume refers to."""
    spec, status = (user or {}).get("spec") or {}, (user or {}).get("status") or {}
    wanted = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    names = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), wanted)
    return {name for name in names if name}
