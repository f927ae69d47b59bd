"""Sets the phase of a PersistentVolume: Available, Bound or Released, by its claim."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.controllers.context import ControllerContext
from podfit.reconcile import DONE, Engine, Result

VOLUME, CLAIM = kind_named("PersistentVolume"), kind_named("PersistentVolumeClaim")
AVAILABLE, BOUND, RELEASED, FAILED = "Available", "Bound", "Released", "Failed"


class VolumePhaseController:
    name = "persistentvolume-binder-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._volumes, self._claims = context.cache(VOLUME), context.cache(CLAIM)
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._volumes.subscribe(self._volume_changed)
        self._claims.subscribe(self._claim_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _volume_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add(after["metadata"]["name"])

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        for claim in (before, after):
            if claim is not None and (name := claim["spec"].get("volumeName")):
                self._engine.add(name)

    async def _reconcile(self, name: str) -> Result:
        volume = self._volumes.get("", name)
        if volume is None:
            return DONE
        reference = volume["spec"].get("claimRef") or {}
        claim = self._claims.get(reference.get("namespace", ""), reference.get("name", ""))
        status = volume.get("status") or {}
        phase = phase_of(volume, claim)
        if phase == RELEASED and status.get("phase") != RELEASED:
            # Reads the server, because the cache may not have the claim yet.
            claim = await self._client.find(CLAIM, reference.get("namespace", ""), reference.get("name", ""))
            phase = phase_of(volume, claim)
        if phase and phase != status.get("phase"):
            try:
                await self._client.update(VOLUME, {**volume, "status": {**status, "phase": phase}}, "status")
            except ApiError as error:
                # Changed or deleted meanwhile: the cache delivers that, and triggers another pass.
                if error.code not in (404, 409):
                    raise
        return DONE


def phase_of(volume: Object, claim: Object | None) -> str:
    """The phase of a volume by the claim that it refers to; "" while the claim does not refer to it."""
    reference = volume["spec"].get("claimRef") or {}
    if not reference.get("uid"):
        # A volume without a uid is reserved for a claim, but not bound to it.
        return AVAILABLE
    if claim is None or claim["metadata"]["uid"] != reference["uid"]:
        failed = (volume.get("status") or {}).get("phase") == FAILED
        return "" if failed else RELEASED
    return BOUND if claim["spec"].get("volumeName") == volume["metadata"]["name"] else ""
