"""The volume claims of a StatefulSet's pods: created before the pod, kept or deleted by the set's policy.

Claims outlive pods and, by default, the set. With `persistentVolumeClaimRetentionPolicy` a claim belongs to the set
(whenDeleted) or to the pod that is scaled away (whenScaled): garbage collection then deletes it.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.controllers.context import ControllerContext

CLAIM = kind_named("PersistentVolumeClaim")


class SetClaims:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def make(self, owner: Object, number: int) -> list[Object]:
        """Creates the pod's volume claims; returns the volumes that use them."""
        volumes = []
        for template in owner["spec"].get("volumeClaimTemplates") or []:
            meta = template["metadata"]
            name = _name(owner, template, number)
            labels = {**(meta.get("labels") or {}), **((owner["spec"]["selector"] or {}).get("matchLabels") or {})}
            made: Object = {"name": name, "namespace": owner["metadata"]["namespace"], "labels": labels}
            if _policy(owner, "whenDeleted") == "Delete":
                made["ownerReferences"] = [_reference(owner, "apps/v1", "StatefulSet")]
            body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": made, "spec": template["spec"]}
            await self._make_one(owner, name, body, f"{owner['metadata']['name']}-{number}")
            volumes.append({"name": meta["name"], "persistentVolumeClaim": {"claimName": name}})
        return volumes

    async def _make_one(self, owner: Object, name: str, body: Object, pod: str) -> None:
        """Creates one claim, unless it exists from an earlier pod of the same name."""
        set_name = owner["metadata"]["name"]
        try:
            await self._context.client.create(CLAIM, body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return
            message = f"Create Claim {name} for Pod {pod} in StatefulSet {set_name} failed error: {error}"
            self._context.recorder.record(owner, "Warning", "FailedCreate", message)
            raise
        message = f"Create Claim {name} Pod {pod} in StatefulSet {set_name} success"
        self._context.recorder.record(owner, "Normal", "SuccessfulCreate", message)

    async def retire(self, owner: Object, pod: Object, number: int) -> None:
        """Makes the pod the owner of its claims before it is scaled away, if the set's policy is to delete them."""
        if _policy(owner, "whenScaled") != "Delete":
            return
        for template in owner["spec"].get("volumeClaimTemplates") or []:
            client = self._context.client
            claim = await client.find(CLAIM, owner["metadata"]["namespace"], _name(owner, template, number))
            if claim is None:
                continue
            gone = {owner["metadata"]["uid"], pod["metadata"]["uid"]}
            others = [
                reference
                for reference in claim["metadata"].get("ownerReferences") or []
                if reference["uid"] not in gone
            ]
            meta = {**claim["metadata"], "ownerReferences": [*others, _reference(pod, "v1", "Pod")]}
            await client.update(CLAIM, {**claim, "metadata": meta})


def _name(owner: Object, template: Object, number: int) -> str:
    return f"{template['metadata']['name']}-{owner['metadata']['name']}-{number}"


def _policy(owner: Object, when: str) -> str:
    return str((owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(when) or "Retain")


def _reference(obj: Object, api_version: str, kind: str) -> Object:
    meta = obj["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"]}
