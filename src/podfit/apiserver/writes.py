"""The way of a write: defaults, mutating admission, strategy, validation, validating admission, store.

Verbs and subresources differ in how the new object comes about; from there on all of them walk through here. Nothing
is written when nothing changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from podfit.api.cel.budget import Pace
from podfit.api.kinds import Kind
from podfit.api.schema import type_of
from podfit.api.schema.nulls import empty_to_null
from podfit.api.status import (
    ApiError,
    FieldError,
    Object,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    unprocessable,
)
from podfit.apiserver import conversion, deletes, shapes
from podfit.apiserver.admission.base import CREATE, UPDATE, Attributes, InQuota
from podfit.apiserver.admission.chain import Chain
from podfit.apiserver.dialects import Dialect
from podfit.apiserver.dialects.strategy import resizes
from podfit.apiserver.evaluation import evaluated
from podfit.apiserver.objects import Objects
from podfit.apiserver.options import WriteOptions
from podfit.apiserver.request import User
from podfit.apiserver.strategy import Strategy, strategy_for
from podfit.kit.aside import LARGE, Aside
from podfit.kit.clock import rfc3339
from podfit.kit.uids import new_uid
from podfit.store.backend import Mismatch, Record

RETRIES = 256
"""How often a write that states no revision starts over when others were faster. Kubernetes never gives up before the
request times out; a bound keeps a bug from spinning."""
_NAME_TRIES = 8
_PLACES = {
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
    "endpoints": "services/endpoints",
}
"""Kinds that Kubernetes stores under another name."""
_OWN_PLACES = ("apiextensions.k8s.io", "apiregistration.k8s.io")
"""Groups that Kubernetes stores under their own name, as it does custom resources."""
_FILLED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace", "name")

Change = Callable[[Object, Record], Object | Awaitable[Object]]
"""Makes the new object from a fresh copy of the stored one, or from the stored one where the write `shares`."""
Stages = Callable[[Object, Object, str], Object | None]
"""From the new object, the stored one and the time: a state between the two that is to be stored first, if any."""
Worded = Callable[[Kind, list[FieldError], Object], list[FieldError]]
Track = Callable[[Object, Object | None], None]
"""Writes down in metadata.managedFields who set what."""


@dataclass(frozen=True, slots=True)
class Lens:
    """A subresource that shows an object as one of another kind (Scale). Admission sees and changes what it shows."""

    subresource: str
    show: Callable[[Object], Object]
    put_back: Callable[[Object, Object], Object]
    """The object, changed to what is shown."""


class Write(msgspec.Struct, eq=False):
    """One write request: where it goes, who asks, and what the client is warned of."""

    kind: Kind
    namespace: str
    name: str
    user: User
    options: WriteOptions
    subresource: str = ""
    warnings: list[str] = []
    track: Track | None = None
    lens: Lens | None = None
    replaces: bool = False
    """A PUT: a uid in the body is a precondition. In a patch it is a change of an immutable field."""
    shares: bool = False
    """The change leaves the stored object as it is, and copies what it or the strategy changes in place."""
    size: int = 0
    """Bytes that the client sent: a large object is made and checked beside the event loop."""
    dialect: Dialect | None = None
    """The older dialect that the client speaks; None: the object comes as it is stored."""
    strategy: Strategy | None = None
    """By whose rules the object is changed, where not by those of its kind."""
    asked: Object | None = None
    """The object as the client wrote it, in its dialect."""
    stages: Stages | None = None
    """What watchers of the namespace are to see in between."""
    worded: Worded | None = None
    """Puts the reasons for a refusal into other words."""
    in_quota: InQuota | None = None
    """A pod as quotas of the namespace count it; None: as it is stored."""


class Written(NamedTuple):
    obj: Object
    record: Record | None
    """None when nothing is stored: a dry run, or an object that is gone with this write."""
    created: bool = False


class Writer:
    def __init__(self, objects: Objects, chain: Chain) -> None:
        self.objects, self.chain = objects, chain
        self.aside = Aside()
        self.before_create: dict[tuple[str, str], Callable[[Object], None]] = {}
        """By (group, plural): what must be allotted before validation (cluster addresses)."""
        self.before_update: dict[tuple[str, str], Callable[[Object, Object], None]] = {}
        """The same for an update, from the new object and the stored one."""
        self.after_write: dict[str, Callable[[Object], Awaitable[None] | None]] = {}
        """By the prefix they are stored under: who must know of objects before the writes of them are answered."""

    # --- create ---------------------------------------------------------------------------------------------------

    async def create(self, write: Write, obj: Object) -> Written:
        kind, strategy = write.kind, write.strategy or strategy_for(write.kind)
        meta = obj.setdefault("metadata", {})
        match_namespace(meta, write.namespace)
        if meta.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        if (track := write.track) is not None:
            # Before admission: what plugins add belongs to nobody, so that no applier takes it away again.
            await self.aside.run(write.size, lambda: track(obj, None))
        attrs = self._attributes(CREATE, write, obj, None)
        await self.chain.admit(attrs)
        made = attrs.object or obj
        tries = 1 if made["metadata"].get("name") else _NAME_TRIES
        self._fill_system_fields(made["metadata"], strategy)
        attrs.name = made["metadata"].get("name", "")
        await self.aside.run(write.size, lambda: self._prepare(kind, strategy, made))
        size = LARGE if strategy.heavy(made) else write.size
        errors = await evaluated(
            self.aside, size, lambda pace: strategy.validate_create(made) + shapes.errors(kind, made, pace=pace)
        )
        _check(write, made, errors)
        write.warnings += strategy.warnings_create(made)
        await self.chain.validate(attrs)
        write.warnings += attrs.warnings
        return await self._insert(write, strategy, made, tries)

    def _prepare(self, kind: Kind, strategy: Strategy, obj: Object) -> None:
        strategy.prepare_create(obj)
        if (allot := self.before_create.get((kind.group, kind.plural))) is not None:
            allot(obj)

    async def install(self, kind: Kind, namespace: str, obj: Object) -> None:
        """Stores an object of our own making, if it is not there: no admission, no validation."""
        strategy = strategy_for(kind)
        shapes.default(kind, obj)
        self._fill_system_fields(obj["metadata"], strategy)
        known = {"status": obj["status"]} if "status" in obj else {}
        strategy.prepare_create(obj)
        obj.update(known)
        if (allot := self.before_create.get((kind.group, kind.plural))) is not None:
            allot(obj)
        try:
            await self.objects.put(kind, kind.key(namespace, obj["metadata"]["name"]), obj, 0)
        except Mismatch:
            pass

    async def _insert(self, write: Write, strategy: Strategy, obj: Object, tries: int) -> Written:
        """More than one try is for names that were generated: another one is generated for each."""
        kind, meta = write.kind, obj["metadata"]
        while True:
            key = kind.key(meta.get("namespace", ""), meta["name"])
            if write.options.dry_run:
                present = self.objects.store.get(key)
                if present is None:
                    return Written(obj, None, True)
            else:
                _as_stored(kind, obj)
                try:
                    record = await self.objects.put(kind, key, obj, 0)
                    await self._announce(kind, obj)
                    return Written(obj, record, True)
                except Mismatch as lost:
                    present = lost.current
            tries -= 1
            if not tries:
                raise self._in_the_way(kind, meta, present)
            meta["name"] = strategy.generate_name(meta["generateName"])

    def _in_the_way(self, kind: Kind, meta: Object, present: Record | None) -> ApiError:
        """409: an object of that name exists."""
        stored = {} if present is None else self.objects.decoded(present)["metadata"]
        terminating = bool(stored.get("deletionTimestamp"))
        return already_exists(kind.plural, meta["name"], kind.group, bool(meta.get("generateName")), terminating)

    def _fill_system_fields(self, meta: Object, strategy: Strategy) -> None:
        for gone in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            if gone in meta:
                del meta[gone]
        meta["creationTimestamp"] = rfc3339(self.objects.clock.now())
        meta["uid"] = new_uid()
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = strategy.generate_name(meta["generateName"])

    # --- update ---------------------------------------------------------------------------------------------------

    async def update(self, write: Write, change: Change, retry: bool = True) -> Written:
        """`change` is called again when somebody else wrote meanwhile; without `retry` that is a conflict at once."""
        kind = write.kind
        key = kind.key(write.namespace, write.name)
        for attempt in range(RETRIES):
            record = self.objects.store.get(key)
            if record is None:
                raise not_found(kind.plural, write.name, kind.group)
            warned = len(write.warnings)
            try:
                return await self._update_once(write, key, record, change)
            except Mismatch as lost:
                if not retry or attempt == RETRIES - 1:
                    if lost.current is None:
                        raise not_found(kind.plural, write.name, kind.group) from None
                    break
                del write.warnings[warned:]
        raise self.objects.modified(kind, write.name)

    async def _update_once(self, write: Write, key: str, record: Record, change: Change) -> Written:
        kind, strategy = write.kind, write.strategy or strategy_for(write.kind)
        if kind.custom:
            record = (await self.objects.shown(kind, (record,)))[0]
        size = max(write.size, len(record.value))
        old = self._old(kind, record)
        made = await self.aside.run(
            size, lambda: change(old if write.shares else self.objects.served(kind, record), record)
        )
        new = made if isinstance(made, dict) else await made
        attrs = self._attributes(UPDATE, write, new, old)
        await self.chain.admit(attrs)
        new = self._admitted(write, attrs, new)
        self._match_revision(write, strategy, new, old, record)
        if not kind.namespaced:
            new["metadata"].pop("namespace", None)
        _fill_from(new["metadata"], old["metadata"])
        await self.aside.run(size, lambda: _prepare_update(write, strategy, new, old))
        if not write.subresource and (reallot := self.before_update.get((kind.group, kind.plural))) is not None:
            reallot(new, old)
        size = LARGE if strategy.heavy(new) else size
        errors = await evaluated(self.aside, size, lambda pace: _update_errors(write, strategy, new, old, pace))
        _check(write, new, errors)
        write.warnings += strategy.warnings_update(new, old, write.subresource)
        if write.lens is not None:
            attrs.object = write.lens.show(new)
        await self.chain.validate(attrs)
        write.warnings += attrs.warnings
        return await self._replace(write, key, record, new, old)

    async def _replace(self, write: Write, key: str, record: Record, new: Object, old: Object) -> Written:
        kind = write.kind
        if deletes.ends_with(kind, new, old):
            if not write.options.dry_run:
                deleted = await self.objects.store.delete(key, record.modified)
                new["metadata"]["resourceVersion"] = str(deleted.revision)
            return Written(new, None)
        if not write.options.dry_run and write.subresource in ("", "status"):
            _as_stored(kind, new)
        if unchanged(new, old):
            return Written(new, record)
        if write.options.dry_run:
            return Written(new, None)
        if write.stages is not None and write.subresource == "status":
            between = write.stages(new, old, rfc3339(self.objects.clock.now()))
            if between is not None:
                record = await self.objects.put(kind, key, between, record.modified)
        record = await self.objects.put(kind, key, new, record.modified)
        await self._announce(kind, new)
        return Written(new, record)

    async def _announce(self, kind: Kind, obj: Object) -> None:
        if (learn := self.after_write.get(kind.storage_prefix)) is not None and (more := learn(obj)) is not None:
            await more

    def _old(self, kind: Kind, record: Record) -> Object:
        if conversion.needed(kind) or kind.custom:
            return self.objects.served(kind, record)
        return self.objects.decoded(record)

    def _match_revision(self, write: Write, strategy: Strategy, new: Object, old: Object, record: Record) -> None:
        kind, meta = write.kind, new.setdefault("metadata", {})
        uid = meta.get("uid")
        if write.replaces and uid and uid != old["metadata"].get("uid"):
            raise precondition_failed(kind, old, uid, dry_run=write.options.dry_run)
        revision = meta.get("resourceVersion")
        if not revision or revision == "0":
            if not strategy.unconditional_update:
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise unprocessable(kind.plural, meta.get("name", ""), [error], kind.group)
            meta["resourceVersion"] = str(record.modified)
        elif revision != str(record.modified):
            raise self.objects.modified(kind, old["metadata"]["name"])

    def _attributes(self, operation: str, write: Write, obj: Object, old: Object | None) -> Attributes:
        name = write.name or (obj.get("metadata") or {}).get("name", "")
        lens, subresource = write.lens, write.subresource
        if lens is not None:
            subresource, obj, old = lens.subresource, lens.show(obj), lens.show(old) if old is not None else None
        attrs = Attributes(
            operation,
            write.kind,
            subresource,
            write.namespace,
            name,
            obj,
            old,
            write.user,
            write.options.dry_run,
            write.options.to_json(),
        )
        attrs.in_quota = write.in_quota
        if (dialect := write.dialect) is not None:
            attrs.dialect, attrs.asked = dialect, write.asked
            attrs.resizes = dialect.on_pod and not subresource and old is not None and resizes(obj, old)
        return attrs

    @staticmethod
    def _admitted(write: Write, attrs: Attributes, new: Object) -> Object:
        if write.lens is None or attrs.object is None:
            return attrs.object or new
        return write.lens.put_back(new, attrs.object)


def _as_stored(kind: Kind, obj: Object) -> None:
    """What the store of Kubernetes makes of an object. Custom resources and their definitions are JSON there, too."""
    if not kind.custom and kind.group not in _OWN_PLACES and (struct := type_of(kind)) is not None:
        empty_to_null(obj, struct)


def _prepare_update(write: Write, strategy: Strategy, new: Object, old: Object) -> None:
    strategy.prepare_update(new, old, write.subresource)
    if write.track is not None:
        write.track(new, old)


def _update_errors(write: Write, strategy: Strategy, new: Object, old: Object, pace: Pace) -> list[FieldError]:
    errors = strategy.validate_update(new, old, write.subresource)
    return errors + shapes.errors(write.kind, new, old, write.subresource, pace)


def precondition_failed(kind: Kind, stored: Object, wanted: str, field: str = "UID", dry_run: bool = False) -> ApiError:
    """409: the object has another uid (or resourceVersion) than the writer thinks."""
    mine = stored["metadata"].get("uid" if field == "UID" else "resourceVersion")
    why = (
        f"StorageError: invalid object, Code: 4, Key: {_upstream_key(kind, stored, dry_run)}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {field} in precondition: {wanted}, "
        f"{field} in object meta: {mine}"
    )
    return conflict(kind.plural, stored["metadata"]["name"], why, kind.group)


def _upstream_key(kind: Kind, obj: Object, dry_run: bool) -> str:
    """The storage key as Kubernetes prints it; a dry run never gets as far as the prefix of its store."""
    namespace = obj["metadata"].get("namespace")
    place = f"{kind.group}/{kind.plural}" if kind.custom or kind.group in _OWN_PLACES else kind.plural
    parts = ["" if dry_run else "registry", _PLACES.get(place, place), namespace]
    return "".join(f"/{part}" for part in (*parts, obj["metadata"]["name"]) if part)


def match_namespace(meta: Object, namespace: str) -> None:
    given = meta.get("namespace") or ""
    if given == namespace:
        return
    if not given:
        meta["namespace"] = namespace
    elif not namespace:
        meta.pop("namespace")
    else:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def check(kind: Kind, obj: Object, errors: list) -> None:  # type: ignore[type-arg]
    if errors:
        raise unprocessable(kind.kind, obj["metadata"].get("name", ""), errors, kind.group)


def _check(write: Write, obj: Object, errors: list[FieldError]) -> None:
    check(write.kind, obj, errors if write.worded is None else write.worded(write.kind, errors, obj))


def _fill_from(meta: Object, stored: Object) -> None:
    """What a client may leave out of an update, because the server knows it."""
    for name in _FILLED:
        if not meta.get(name) and name in stored:
            meta[name] = stored[name]
    if "generation" in stored:
        meta["generation"] = stored["generation"]
    else:
        meta.pop("generation", None)


def unchanged(new: Object, old: Object) -> bool:
    """Whether an update would write what is there. A managed-fields entry that only got a new time is no change."""
    if new.keys() != old.keys():
        return False
    for key, value in new.items():
        if value is not old[key] and key != "metadata" and value != old[key]:
            return False
    if new["metadata"] == old["metadata"]:
        return True
    ours, theirs = dict(new["metadata"]), dict(old["metadata"])
    mine, stored = ours.pop("managedFields", None), theirs.pop("managedFields", None)
    if mine == stored or _timeless(mine) != _timeless(stored) or ours != theirs:
        return False
    new["metadata"]["managedFields"] = stored
    return True


def _timeless(entries: list[Object] | None) -> list[Object]:
    return [{key: value for key, value in entry.items() if key != "time"} for entry in entries or []]
