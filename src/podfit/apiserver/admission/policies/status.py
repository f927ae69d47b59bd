"""Writes the status of policies, with the observed generation, before the write of a policy is answered.

In Kubernetes a controller does this. It also warns of expressions that do not match the schemas of the kinds that a
policy matches. Here `typeChecking` is always empty: expressions are only compiled when a policy is stored.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.admission.policies.plugin import POLICY
from podfit.apiserver.representation import wire
from podfit.apiserver.storage.objects import Objects
from podfit.store.backend import Mismatch


class PolicyStatuses:
    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def settle(self, policy: Object) -> None:
        record = self._objects.record(POLICY, "", policy["metadata"]["name"])
        if record is None:
            return
        stored = wire.object_of(record)
        generation, status = stored["metadata"].get("generation", 0), stored.get("status") or {}
        if status.get("observedGeneration") == generation:
            return
        stored["status"] = {**status, "observedGeneration": generation, "typeChecking": {}}
        try:
            await self._objects.put(POLICY, record.key, stored, record.modified)
        except Mismatch:
            return  # A newer version was written; its writer updates the status.
