"""The desired number of pods of their controllers: from the cached kinds, else from the `scale` subresource."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import BUILT_IN, Kind, kind_named
from podfit.api.status import ApiError, go_quote
from podfit.client import Cache
from podfit.client.discovery import discover
from podfit.controllers.context import ControllerContext

_FOLLOWED = tuple(map(kind_named, ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")))


class NoScale(Exception):
    """A pod's controller has no scale; the message names it."""


def controller_of(obj: Object) -> Object | None:
    return next((owner for owner in obj["metadata"].get("ownerReferences") or [] if owner.get("controller")), None)


def replicas_of(obj: Object) -> int:
    return int((obj.get("spec") or {}).get("replicas", 1))


class Scales:
    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._caches = {(kind.group, kind.kind): context.cache(kind) for kind in _FOLLOWED}
        self._kinds = {(kind.api_version, kind.kind): kind for kind in BUILT_IN}

    @property
    def followed(self) -> list[Cache]:
        return list(self._caches.values())

    async def of(self, owner: Object, pod: Object) -> tuple[str, int]:
        """The UID of the pod's controller, and its desired number."""
        namespace = pod["metadata"]["namespace"]
        found = self._known(owner, namespace) or await self._fetch(owner, namespace)
        if found is None:
            raise NoScale(f"found no controllers for pod {go_quote(pod['metadata']['name'])}")
        return found

    def _known(self, owner: Object, namespace: str) -> tuple[str, int] | None:
        cache = self._caches.get((owner.get("apiVersion", "").rpartition("/")[0], owner.get("kind", "")))
        obj = cache.get(namespace, owner["name"]) if cache is not None else None
        if obj is None or obj["metadata"]["uid"] != owner["uid"]:
            return None
        above = controller_of(obj)
        if above is not None and above.get("kind") == "Deployment":
            return self._known(above, namespace)
        return owner["uid"], replicas_of(obj)

    async def _fetch(self, owner: Object, namespace: str) -> tuple[str, int] | None:
        kind = await self._kind(owner.get("apiVersion", ""), owner.get("kind", ""))
        if not _has_scale(kind):
            name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
            raise NoScale(f"{name} does not implement the scale subresource")
        try:
            scale = await self._context.client.get(kind, namespace, owner["name"], "scale")
        except ApiError as error:
            if error.code != 404:
                raise NoScale(str(error)) from None
            return None
        if scale["metadata"].get("uid") != owner["uid"]:
            return None
        return owner["uid"], int((scale.get("spec") or {}).get("replicas", 0))

    async def _kind(self, api_version: str, name: str) -> Kind:
        """The kind of a controller. Not cached for kinds without a scale, because definitions may be added and
        changed."""
        if (kind := self._kinds.get((api_version, name))) is not None:
            return kind
        for kind in await discover(self._context.client, preferred_only=False):
            if (kind.api_version, kind.kind) == (api_version, name):
                if _has_scale(kind):
                    self._kinds[api_version, name] = kind
                return kind
        raise NoScale(f"no matches for kind {go_quote(name)} in version {go_quote(api_version)}")


def _has_scale(kind: Kind) -> bool:
    return any(subresource.name == "scale" for subresource in kind.subresources)
