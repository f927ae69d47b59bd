"""ControllerRevisions: the former templates of a StatefulSet or DaemonSet, numbered, oldest first."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError
from podfit.controllers.context import ControllerContext
from podfit.controllers.workloads.deployments.hashing import template_hash
from podfit.controllers.workloads.ownership import Owned, owner_reference

REVISION = kind_named("ControllerRevision")
HASH_LABEL = "controller-revision-hash"
"""On pods: the revision's name for StatefulSets, its hash for DaemonSets."""
_REVISION_HASH = {"DaemonSet": HASH_LABEL, "StatefulSet": "controller.kubernetes.io/hash"}
"""On revisions, by the kind of their owner."""


def hash_of(revision: Object) -> str:
    labels = revision["metadata"].get("labels") or {}
    return str(next((labels[key] for key in _REVISION_HASH.values() if key in labels), ""))


def template_of(revision: Object) -> Object:
    """Empty if the data, which may be any JSON in a revision created by another client, contains no template."""
    found = revision.get("data")
    for step in ("spec", "template"):
        found = found.get(step) if isinstance(found, dict) else None
    return {key: value for key, value in found.items() if key != "$patch"} if isinstance(found, dict) else {}


class History:
    def __init__(self, context: ControllerContext, kind: Kind) -> None:
        self._context, self._kind = context, kind
        self._owned = Owned(context, kind, REVISION)

    async def of(self, owner: Object) -> list[Object]:
        """The owner's revisions, oldest first."""
        selector = LabelSelector.from_object(owner["spec"]["selector"])
        found = await self._owned.of(owner, selector)
        return sorted(found, key=lambda revision: (int(revision.get("revision", 0)), revision["metadata"]["name"]))

    async def current(self, owner: Object, revisions: list[Object]) -> Object:
        """The revision of the owner's current template: an equal one moved to the top, or a new one."""
        template = owner["spec"]["template"]
        top = max((int(revision.get("revision", 0)) for revision in revisions), default=0)
        for candidate in reversed(revisions):
            if template_of(candidate) == template:
                return (
                    candidate if int(candidate.get("revision", 0)) == top else await self._renumber(candidate, top + 1)
                )
        return await self._create(owner, template, top + 1)

    async def _renumber(self, revision: Object, number: int) -> Object:
        meta = revision["metadata"]
        return await self._context.client.patch(REVISION, meta["namespace"], meta["name"], {"revision": number})

    async def _create(self, owner: Object, template: Object, number: int) -> Object:
        meta, collisions = owner["metadata"], 0
        while True:
            name = template_hash(template, collisions)
            own = {_REVISION_HASH[self._kind.kind]: name}
            labels = {**((template.get("metadata") or {}).get("labels") or {}), **own}
            body = {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {
                    "name": f"{meta['name']}-{name}",
                    "namespace": meta["namespace"],
                    "labels": labels,
                    "ownerReferences": [owner_reference(self._kind, owner)],
                },
                "data": in_order({"spec": {"template": {"$patch": "replace", **template}}}),
                "revision": number,
            }
            try:
                return await self._owned.create(owner, body)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                found = await self._context.client.find(REVISION, meta["namespace"], body["metadata"]["name"])  # type: ignore[index]
                if found and template_of(found) == template:
                    return found
                collisions += 1

    async def trim(self, owner: Object, revisions: list[Object], used: set[str]) -> None:
        """Deletes the oldest revisions that no pod has, beyond the limit."""
        limit = int(owner["spec"].get("revisionHistoryLimit", 10))
        spare = [
            revision
            for revision in revisions
            if revision["metadata"]["name"] not in used and hash_of(revision) not in used
        ]
        for revision in spare[: max(0, len(spare) - limit)]:
            await self._owned.delete(revision)


def in_order(value: Any) -> Any:
    """The value with sorted keys, as in Go's encoding: clients compare the bytes of a revision with a template's."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value
