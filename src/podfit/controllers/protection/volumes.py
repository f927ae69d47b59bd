"""Protects a PersistentVolume from deletion while it is bound to a claim."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.controllers.context import ControllerContext
from podfit.controllers.protection.finalizers import Finalizer
from podfit.reconcile import DONE, Engine, Result

VOLUME = kind_named("PersistentVolume")
_FINALIZER = Finalizer(VOLUME, "kubernetes.io/pv-protection")


class VolumeProtectionController:
    name = "persistentvolume-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client, self._volumes = context.client, context.cache(VOLUME)
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._volumes.subscribe(self._changed)

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None and (_FINALIZER.held(after) or _FINALIZER.lacking(after)):
            self._engine.add(after["metadata"]["name"])

    async def _reconcile(self, name: str) -> Result:
        volume = self._volumes.get("", name)
        if volume is None:
            return DONE
        if _FINALIZER.held(volume) and (volume.get("status") or {}).get("phase") != "Bound":
            await _FINALIZER.remove(self._client, volume)
        elif _FINALIZER.lacking(volume):
            await _FINALIZER.add(self._client, volume)
        return DONE
