"""Deletes objects that lost all their owners; carries out foreground deletion and orphaning.

It watches every kind that can be listed, watched and deleted (custom ones too), maintains a graph of owners and
processes only objects whose neighbourhood changed.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial

from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT, Kind
from podfit.api.status import ApiError, go_quote
from podfit.client.discovery import discover
from podfit.client.transport import Unreachable
from podfit.controllers.context import ControllerContext
from podfit.controllers.garbage.graph import (
    ORPHAN,
    Delete,
    DropFinalizer,
    DropReferences,
    Graph,
    Item,
    Orphan,
    item_of,
    judge,
)
from podfit.kit.concurrency.tasks import Tasks
from podfit.reconcile import DONE, Engine, Result

log = logging.getLogger(__name__)

_REDISCOVER_S = 30.0
_ABSENT_REMEMBERED = 2048


class GarbageCollector:
    name = "garbage-collector"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._graph = Graph()
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._followed: set[tuple[str, str]] = set()
        self._absent: OrderedDict[object, None] = OrderedDict()
        """UIDs of deleted objects, and references to objects that do not exist on the server."""
        self._engine: Engine[str] = Engine(self.name, self._reconcile, workers=8, clock=context.clock)

    async def run(self) -> None:
        tasks = Tasks(self.name)
        try:
            tasks.start(self._follow_kinds(), "kinds")
            await self._engine.run()
        finally:
            await tasks.stop()

    async def _follow_kinds(self) -> None:
        while True:
            try:
                for kind in await discover(self._context.client):
                    self._follow(kind)
            except (ApiError, Unreachable) as error:
                log.info("discovery: %s", error)
            await self._context.clock.sleep(_REDISCOVER_S)

    def _follow(self, kind: Kind) -> None:
        self._kinds[kind.api_version, kind.kind] = kind
        id = (kind.group, kind.plural)
        if id in self._followed or kind.plural == EVENT.plural or not {"list", "watch", "delete"} <= set(kind.verbs):
            return
        self._followed.add(id)
        known = next(
            (cached for cached in self._context.informers.kinds() if (cached.group, cached.plural) == id), kind
        )
        self._context.cache(known).subscribe(partial(self._changed, known))

    def _changed(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        if after is not None:
            uid = after["metadata"]["uid"]
            old = self._graph.nodes.get(uid)
            self._absent.pop(uid, None)
            if old is not None and not old.deleting and old.still(after) and self._settled(old):
                return
            item = item_of(kind, after)
            self._graph.put(item)
            if item.owners or item.foreground or item.orphaning:
                self._engine.add(item.uid)
            if item.foreground and not (old and old.foreground):
                for child in self._graph.below(item.uid):
                    self._engine.add(child.uid)
            self._enqueue_foreground(old.owners if old else ())
            # The same name with another UID: the previous object was deleted in between.
            if before is not None and before["metadata"]["uid"] != item.uid:
                self._on_deleted(before["metadata"]["uid"])
        elif before is not None:
            self._on_deleted(before["metadata"]["uid"])

    def _settled(self, item: Item) -> bool:
        """Whether all owners of the item exist, so that no pass is needed: the deletion of an owner triggers one."""
        return not item.owners or all(owner["uid"] in self._graph.nodes for owner in item.owners)

    def _on_deleted(self, uid: str) -> None:
        item = self._graph.drop(uid)
        self._remember_absent(uid)
        for child in self._graph.below(uid):
            self._engine.add(child.uid)
        self._enqueue_foreground(item.owners if item else ())

    def _enqueue_foreground(self, owners: Iterable[Object]) -> None:
        """Enqueues owners in foreground deletion: they may have waited for a dependent that they no longer have."""
        for owner in owners:
            node = self._graph.nodes.get(owner["uid"])
            if node is not None and node.foreground:
                self._engine.add(node.uid)

    def _remember_absent(self, what: object) -> None:
        self._absent[what] = None
        if len(self._absent) > _ABSENT_REMEMBERED:
            self._absent.popitem(last=False)

    async def _reconcile(self, uid: str) -> Result:
        item = self._graph.nodes.get(uid)
        if item is None:
            return DONE
        gone = [owner for owner in item.owners if await self._is_absent(owner, item)]
        verdict = judge(self._graph, item, lambda owner, _: owner in gone)
        try:
            await self._carry_out(item, verdict)
        except ApiError as error:
            if error.code != 404:
                raise
        return DONE

    async def _is_absent(self, owner: Object, item: Item) -> bool:
        """Whether the owner named by the reference does not exist.

        An owner that is in no cache is requested once from the server, and the result is cached.
        """
        uid, node = owner["uid"], self._graph.nodes.get(owner["uid"])
        if node is not None:
            if node.is_named_by(owner, item.namespace):
                return False
            if node.namespace and node.namespace != item.namespace:
                self._report_foreign_owner(owner, item)
        elif uid in self._absent:
            return True
        kind = self._kinds.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        if kind is None or (kind.namespaced and not item.namespace):
            # Unknown: the kind is not served, or the reference cannot name its namespace.
            return False
        namespace, name = item.namespace if kind.namespaced else "", owner.get("name", "")
        reference = (uid, kind, namespace, name)
        if reference not in self._absent:
            found = await self._context.client.find(kind, namespace, name)
            if found is not None and found["metadata"]["uid"] == uid:
                return False
            self._remember_absent(reference)
        return True

    def _report_foreign_owner(self, owner: Object, item: Item) -> None:
        meta = {"name": item.name, "namespace": item.namespace, "uid": item.uid}
        about = {"apiVersion": item.kind.api_version, "kind": item.kind.kind, "metadata": meta}
        said = f"{owner.get('apiVersion')}/{owner.get('kind')}, namespace: {item.namespace}, name: {owner.get('name')}"
        message = f"ownerRef [{said}, uid: {owner['uid']}] does not exist in namespace {go_quote(item.namespace)}"
        self._context.recorder.record(about, "Warning", "OwnerRefInvalidNamespace", message)

    async def _carry_out(self, item: Item, verdict: object) -> None:
        client = self._context.client
        if isinstance(verdict, Delete):
            if verdict.unblock:
                await self._unblock(item)
            options = {"preconditions": {"uid": item.uid}, "propagationPolicy": verdict.policy}
            await client.delete(item.kind, item.namespace, item.name, options)
        elif isinstance(verdict, DropReferences):
            await self._drop_references(item, set(verdict.uids))
        elif isinstance(verdict, DropFinalizer):
            await self._drop_finalizer(item, verdict.finalizer)
        elif isinstance(verdict, Orphan):
            for uid in verdict.dependents:
                child = self._graph.nodes.get(uid)
                if child is not None:
                    await self._drop_references(child, {item.uid})
            await self._drop_finalizer(item, ORPHAN)

    async def _drop_references(self, item: Item, uids: set[str]) -> None:
        live = await self._context.client.find(item.kind, item.namespace, item.name)
        if live is None or live["metadata"]["uid"] != item.uid:
            return
        owners = [owner for owner in live["metadata"].get("ownerReferences") or [] if owner["uid"] not in uids]
        await self._patch_meta(item, live, {"ownerReferences": owners or None})

    async def _unblock(self, item: Item) -> None:
        live = await self._context.client.find(item.kind, item.namespace, item.name)
        if live is not None and live["metadata"]["uid"] == item.uid:
            owners = [{**owner, "blockOwnerDeletion": False} for owner in live["metadata"].get("ownerReferences") or []]
            await self._patch_meta(item, live, {"ownerReferences": owners or None})

    async def _drop_finalizer(self, item: Item, finalizer: str) -> None:
        live = await self._context.client.find(item.kind, item.namespace, item.name)
        if live is None or live["metadata"]["uid"] != item.uid:
            return
        left = [word for word in live["metadata"].get("finalizers") or [] if word != finalizer]
        await self._patch_meta(item, live, {"finalizers": left or None})

    async def _patch_meta(self, item: Item, live: Object, change: Object) -> None:
        meta = {**change, "resourceVersion": live["metadata"]["resourceVersion"], "uid": item.uid}
        await self._context.client.patch(item.kind, item.namespace, item.name, {"metadata": meta})
