"""A controller's pods: finding, adopting, releasing, creating and deleting them, each exactly once.

The cache may lag behind our own writes. So a created object counts from the server's response on, and a deleted one no
longer counts, until the cache shows the same. If the response to a create is lost, the state is uncertain: the next
pass reads the server itself before it creates anything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError
from podfit.client.rest import STRATEGIC
from podfit.client.transport import Unreachable
from podfit.controllers.context import ControllerContext
from podfit.controllers.owners import controller_of
from podfit.controllers.workloads.podstate import is_deleting

log = logging.getLogger(__name__)


def owner_reference(kind: Kind, owner: Object) -> Object:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class Owned:
    """Objects of one kind (pods, or ReplicaSets) owned by objects of another.

    `is_member` decides whether an object that matches an owner's selector can belong to it at all. Adopted objects get
    `finalizer`, released ones lose it.
    """

    def __init__(
        self,
        context: ControllerContext,
        owner_kind: Kind,
        kind: Kind = POD,
        is_member: Callable[[Object, Object], bool] = lambda owner, obj: True,
        finalizer: str = "",
    ) -> None:
        self._finalizer = finalizer
        self._context, self._owner_kind, self._kind, self._is_member = context, owner_kind, kind, is_member
        self._cache = context.cache(kind)
        self._created: dict[str, dict[str, Object]] = {}
        self._deleted: set[str] = set()
        self._unverified: set[str] = set()
        self._cache.subscribe(self._on_change)

    def wake(self, add: Callable[[tuple[str, str]], None]) -> None:
        """Calls `add` with the owner's (namespace, name) whenever one of its objects changed."""
        waking = self._context.informers.waking(self._kind)
        waking.owned_by(self._owner_kind.kind, lambda key, before, after: add(key))

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        obj = after or before
        if obj is None or not (self._created or self._deleted):
            return
        uid = obj["metadata"]["uid"]
        owner = controller_of(obj)
        if owner is not None:
            made = self._created.get(owner["uid"])
            if made is not None:
                made.pop(uid, None)
                if not made:
                    del self._created[owner["uid"]]
        if after is None or is_deleting(after):
            self._deleted.discard(uid)

    async def of(self, owner: Object, selector: LabelSelector | None) -> list[Object]:
        """The owner's objects, adopting orphans that match and releasing what no longer does."""
        uid = owner["metadata"]["uid"]
        if uid in self._unverified:
            await self._ask_server(owner)
        found: dict[str, Object] = {}
        for obj in self._cache.by("controller", uid):
            if selector is None or self._belongs(owner, selector, obj):
                found[obj["metadata"]["uid"]] = obj
            elif not is_deleting(owner):
                await self._release(obj, uid)
        if selector is not None and not is_deleting(owner):
            await self._adopt(owner, selector, found)
        found.update({id: obj for id, obj in self._created.get(uid, {}).items() if id not in found})
        return [obj for id, obj in found.items() if id not in self._deleted]

    def deleted_unseen(self, owner: Object) -> int:
        """The number of the owner's objects that were deleted through `delete` while the watch still shows them as
        they were before."""
        owned = self._cache.by("controller", owner["metadata"]["uid"])
        return sum(obj["metadata"]["uid"] in self._deleted and not is_deleting(obj) for obj in owned)

    def _belongs(self, owner: Object, selector: LabelSelector, obj: Object) -> bool:
        return selector.matches(obj["metadata"].get("labels") or {}) and self._is_member(owner, obj)

    async def _ask_server(self, owner: Object) -> None:
        meta = owner["metadata"]
        answer = await self._context.client.list(self._kind, meta["namespace"])
        for obj in answer.get("items") or []:
            above = controller_of(obj)
            known = self._cache.get(meta["namespace"], obj["metadata"]["name"])
            if above is not None and above["uid"] == meta["uid"] and known is None:
                self._created.setdefault(meta["uid"], {})[obj["metadata"]["uid"]] = obj
        self._unverified.discard(meta["uid"])

    async def _adopt(self, owner: Object, selector: LabelSelector, found: dict[str, Object]) -> None:
        orphans = [
            obj
            for obj in self._cache.by("orphan", owner["metadata"]["namespace"])
            if obj["metadata"]["uid"] not in found and not is_deleting(obj) and self._belongs(owner, selector, obj)
        ]
        if not orphans or not await self._lives(owner):
            return
        reference = owner_reference(self._owner_kind, owner)
        for obj in orphans:
            # The reference is added, the list is not replaced: of two concurrent adoptions the server refuses the
            # second.
            adopted = await self._refer(obj, reference, {"finalizers": [self._finalizer]})
            if adopted is not None:
                found[obj["metadata"]["uid"]] = adopted

    async def _lives(self, owner: Object) -> bool:
        """Whether the owner exists on the server: objects adopted by a deleted owner would be garbage-collected."""
        meta = owner["metadata"]
        now = await self._context.client.find(self._owner_kind, meta["namespace"], meta["name"])
        return now is not None and now["metadata"]["uid"] == meta["uid"] and not is_deleting(now)

    async def _release(self, obj: Object, owner_uid: str) -> None:
        without = {"$deleteFromPrimitiveList/finalizers": [self._finalizer]}
        await self._refer(obj, {"$patch": "delete", "uid": owner_uid}, without)

    async def _refer(self, obj: Object, reference: Object, finalizers: Object) -> Object | None:
        """Adds or removes one owner reference, and our finalizer with it, if there is one. None when the object is
        gone or became another's."""
        meta = obj["metadata"]
        more = finalizers if self._finalizer else {}
        change = {"metadata": {"uid": meta["uid"], "ownerReferences": [reference], **more}}
        try:
            return await self._context.client.patch(
                self._kind, meta["namespace"], meta["name"], change, content_type=STRATEGIC
            )
        except ApiError as error:
            if error.code not in (404, 409, 422):
                raise
            return None

    async def create(self, owner: Object, body: Object) -> Object:
        uid = owner["metadata"]["uid"]
        try:
            made = await self._context.client.create(self._kind, body, owner["metadata"]["namespace"])
        except Unreachable:
            self._unverified.add(uid)
            raise
        shown = self._cache.get(owner["metadata"]["namespace"], made["metadata"]["name"])
        if shown is None or shown["metadata"]["uid"] != made["metadata"]["uid"]:
            self._created.setdefault(uid, {})[made["metadata"]["uid"]] = made
        return made

    async def delete(self, obj: Object, **options: object) -> None:
        meta = obj["metadata"]
        self._deleted.add(meta["uid"])
        try:
            await self._context.client.delete(
                self._kind, meta["namespace"], meta["name"], {"preconditions": {"uid": meta["uid"]}, **options}
            )
        except ApiError as error:
            if error.code not in (404, 409):
                self._deleted.discard(meta["uid"])
                raise
        except Unreachable:
            self._deleted.discard(meta["uid"])
            raise

    def forget(self, owner_uid: str) -> None:
        self._created.pop(owner_uid, None)
        self._unverified.discard(owner_uid)


def pod_of(
    template: Object,
    kind: Kind,
    owner: Object,
    *,
    name: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Object:
    """A pod created from a template, owned by `owner`; named after it unless a name is given."""
    meta = template.get("metadata") or {}
    made: Object = {
        "generateName": f"{owner['metadata']['name']}-",
        "ownerReferences": [owner_reference(kind, owner)],
    }
    if name:
        made["name"] = name
    if meta.get("labels") or labels:
        made["labels"] = {**(meta.get("labels") or {}), **(labels or {})}
    if meta.get("annotations") or annotations:
        made["annotations"] = {**(meta.get("annotations") or {}), **(annotations or {})}
    if meta.get("finalizers"):
        made["finalizers"] = meta["finalizers"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template.get("spec") or {}}
