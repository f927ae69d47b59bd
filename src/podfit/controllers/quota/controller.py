"""Updates `status.used` of quotas: usage added by admission is released when objects are deleted or shrink.

A quota is recounted when the usage of an object in its namespace changed, not at every change: most status updates of a
pod do not matter, but one that shows a smaller size does.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from podfit.api.objects import Object
from podfit.api.pods.resources import Amounts
from podfit.api.quantity import ZERO, Quantity
from podfit.api.quotas import count_name, matches, relevant, scope_demands, usage
from podfit.api.registry.kinds import NAMESPACE, POD, Kind, kind_named
from podfit.api.resize.counting import counted_in_quota
from podfit.api.resize.dialects import NATIVE, dialect_of
from podfit.api.status import ApiError
from podfit.client.discovery import discover
from podfit.client.resizing import default_dialect
from podfit.controllers.context import ControllerContext
from podfit.reconcile import DONE, Engine, Requeue, Result

QUOTA = kind_named("ResourceQuota")
_COUNTED = tuple(
    map(
        kind_named,
        ("Pod", "Service", "ConfigMap", "Secret", "PersistentVolumeClaim", "ReplicationController", "ResourceQuota"),
    )
)
_RESYNC_S = 300.0
Key = tuple[str, str]


class QuotaController:
    name = "resourcequota-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, workers=2, clock=context.clock)
        self._quotas = context.cache(QUOTA)
        self._namespaces, self._default = context.cache(NAMESPACE), NATIVE
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._written: dict[Key, int] = {}
        """By quota, the revision of this controller's last update."""
        for kind in _COUNTED:
            self._follow(kind)
        self._quotas.subscribe(self._quota_changed)
        self._namespaces.subscribe(self._namespace_changed)

    async def run(self) -> None:
        self._default = await default_dialect(self._context.client, self._context.clock)
        await self._engine.run()

    def _follow(self, kind: Kind) -> None:
        if (kind.group, kind.plural) not in self._kinds:
            self._kinds[kind.group, kind.plural] = kind
            self._context.cache(kind).subscribe(partial(self._object_changed, kind))

    def _quota_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None and (
            before is None or before.get("spec") != after.get("spec") or not (after.get("status") or {}).get("hard")
        ):
            self._engine.add(_key(after))

    def _namespace_changed(self, before: Object | None, after: Object | None) -> None:
        """Recounts when the dialect of a namespace changed, because pods then count differently."""
        if after is not None and before is not None and dialect_of(_labels(before)) != dialect_of(_labels(after)):
            for quota in self._quotas.by("namespace", after["metadata"]["name"]):
                self._engine.add(_key(quota))

    def _object_changed(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        obj = after or before
        if obj is None:
            return
        quotas = self._quotas.by("namespace", obj["metadata"].get("namespace", ""))
        if not quotas:
            return
        now = datetime.now(UTC)
        old = self._usage(kind, before, now) if before else None
        new = self._usage(kind, after, now) if after else None
        if old != new:
            for quota in quotas:
                if relevant(kind.group, kind.plural, (quota.get("spec") or {}).get("hard") or {}):
                    self._engine.add(_key(quota))

    async def _reconcile(self, key: Key) -> Result:
        quota = self._quotas.get(*key)
        if quota is None:
            self._written.pop(key, None)
            return DONE
        if _revision(quota) < self._written.get(key, 0):
            # Compared with an outdated status, a new count could seem to be written already.
            return Requeue(0.02, "the watch has not delivered the last update yet")
        hard = (quota.get("spec") or {}).get("hard") or {}
        await self._follow_counted(hard)
        used = self._used(quota, hard)
        status = {"hard": hard, "used": {name: str(used[name]) for name in sorted(hard)}}
        if not _same(status, quota.get("status") or {}):
            body = {**quota, "status": status}
            try:
                self._written[key] = _revision(await self._context.client.update(QUOTA, body, "status"))
            except ApiError as error:
                # Admission has updated the usage: recount when the watch has delivered its write.
                if error.code != 409:
                    raise
                return Requeue(0.02, "the quota changed in the meantime")
        return Requeue(_RESYNC_S, "a periodic full recount")

    async def _follow_counted(self, hard: Object) -> None:
        """Starts caches for kinds that the quota counts with `count/…` and that are not watched yet."""
        known = {count_name(*id) for id in self._kinds}
        if all(not name.startswith("count/") or name in known for name in hard):
            return
        for kind in await discover(self._context.client):
            if kind.namespaced and count_name(kind.group, kind.plural) in hard and {"list", "watch"} <= set(kind.verbs):
                self._follow(kind)
                await self._context.cache(kind).ready.wait()

    def _used(self, quota: Object, hard: Object) -> dict[str, Quantity]:
        total: dict[str, Quantity] = dict.fromkeys(hard, ZERO)
        now = datetime.now(UTC)
        # `matches` reads `status.hard`, which a new quota does not have yet.
        judged = {**quota, "status": {"hard": hard}}
        scoped = bool(scope_demands(quota))
        for kind in self._kinds.values():
            names = relevant(kind.group, kind.plural, hard)
            if not names or (scoped and kind != POD):
                continue
            for obj in self._context.cache(kind).by("namespace", quota["metadata"]["namespace"]):
                if matches(judged, kind.group, kind.plural, obj):
                    for name, amount in self._usage(kind, obj, now).items():
                        if name in total:
                            total[name] = total[name] + amount
        return total

    def _usage(self, kind: Kind, obj: Object, now: datetime) -> Amounts:
        if kind == POD:
            namespace = self._namespaces.get("", obj["metadata"].get("namespace", "")) or {"metadata": {}}
            obj = counted_in_quota(obj, dialect_of(_labels(namespace), self._default))
        return usage(kind.group, kind.plural, obj, now)


def _revision(quota: Object) -> int:
    return int(quota["metadata"].get("resourceVersion") or 0)


def _labels(namespace: Object) -> Object:
    labels = namespace["metadata"].get("labels")
    return labels if isinstance(labels, dict) else {}


def _same(one: Object, other: Object) -> bool:
    if set(one) != set(other):
        return False
    for field in ("hard", "used"):
        a, b = one[field], other.get(field) or {}
        if set(a) != set(b) or any(Quantity.parse(a[name]) != Quantity.parse(b[name]) for name in a):
            return False
    return True


def _key(quota: Object) -> Key:
    return quota["metadata"]["namespace"], quota["metadata"]["name"]
