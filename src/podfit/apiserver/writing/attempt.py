"""One attempt to change a stored object: admission, restriction, validation, store.

Verbs and subresources differ in how they make the new object; after that, all of them run the same steps, in the order
of the methods here. If the object in the store has been changed since the attempt started, the attempt is discarded,
and the writer starts a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from podfit.api.cel.cost.budget import YieldPolicy
from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.schema import type_of
from podfit.api.schema.decoding.nulls import empty_to_null
from podfit.api.status import ApiError, FieldError, conflict, invalid, unprocessable
from podfit.apiserver.admission.base import UPDATE, Attributes
from podfit.apiserver.apis import conversion
from podfit.apiserver.dialects.strategy import resizes
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.strategy.meta import unique_owners
from podfit.apiserver.writing import custom_schema, deletes
from podfit.apiserver.writing.evaluation import evaluated
from podfit.apiserver.writing.write import Change, Write, Written
from podfit.kit.clock import rfc3339
from podfit.kit.concurrency.worker_threads import LARGE
from podfit.store.backend import Record

if TYPE_CHECKING:
    from podfit.apiserver.writing.writes import Writer

Result = TypeVar("Result")
_PLACES = {
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
    "endpoints": "services/endpoints",
}
"""Kinds that Kubernetes stores under another name."""
_OWN_PLACES = ("apiextensions.k8s.io", "apiregistration.k8s.io")
"""Groups whose kinds Kubernetes stores below the group's name, like custom resources."""
_FILLED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace", "name")


class Attempt:
    """`old` is the stored object, which is shared and must not be modified."""

    __slots__ = ("_attrs", "_key", "_objects", "_writer", "old", "record", "size", "strategy", "write")

    def __init__(self, writer: Writer, write: Write, key: str, record: Record) -> None:
        self._writer, self._objects, self._key = writer, writer.objects, key
        self.write, self.record = write, record
        self.strategy = write.strategy or strategy_for(write.kind)
        self.size = max(write.size, len(record.value))
        as_served = conversion.needed(write.kind) or write.kind.custom
        self.old = self._objects.served(write.kind, record) if as_served else self._objects.decoded(record)
        self._attrs: Attributes | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        """Runs `work` directly, or in a thread if the object is large."""
        return await self._writer.threads.run(self.size, work)

    async def changed(self, change: Change) -> Object:
        """Makes the object that the client requests."""
        shared, kind = self.write.shares, self.write.kind
        made = await self.run(
            lambda: change(self.old if shared else self._objects.served(kind, self.record), self.record)
        )
        new = made if isinstance(made, dict) else await made
        stored: Object = self.old["metadata"]
        if new.get("metadata") is stored:
            # The server sets fields in the metadata, so it must not be shared with the stored object.
            new = {**new, "metadata": dict(stored)}
        if self.write.replaces:
            self.write.warnings += unique_owners(new.get("metadata") or {})
        return new

    async def admit(self, new: Object) -> Object:
        """Runs mutating admission, which may return another object; then sets defaults."""
        write = self.write
        attrs = self._attrs = attributes(UPDATE, write, new, self.old)
        await self._writer.chain.admit(attrs)
        if attrs.object is not None:
            new = attrs.object if write.subresource_view is None else write.subresource_view.put_back(new, attrs.object)
        write.warnings += unique_owners(new.get("metadata") or {}, admitted=True)
        self._match_revision(new)
        if not write.kind.namespaced:
            new["metadata"].pop("namespace", None)
        _fill_from(new["metadata"], self.old["metadata"])
        return new

    async def prepare(self, new: Object) -> None:
        """Reverts changes that this endpoint does not allow, and records the field managers."""
        await self.run(lambda: self._prepare(new))
        kind = self.write.kind
        if not self.write.subresource and (reallot := self._writer.before_update.get((kind.group, kind.plural))):
            reallot(new, self.old, self.write.options.dry_run)

    def _prepare(self, new: Object) -> None:
        self.strategy.prepare_update(new, self.old, self.write.subresource)
        if self.write.track is not None:
            self.write.track(new, self.old)

    async def validate(self, new: Object) -> None:
        """Validates fields; raises 422 with all errors."""
        size = LARGE if self.strategy.heavy(new) else self.size
        errors, excused = await evaluated(self._writer.threads, size, lambda yielding: self._errors(new, yielding))
        self.write.warnings += excused
        self.check(new, errors)
        self.write.warnings += self.strategy.warnings_update(new, self.old, self.write.subresource)

    def _errors(self, new: Object, yielding: YieldPolicy) -> tuple[list[FieldError], list[str]]:
        """The errors, and warnings about rules that unchanged values violate."""
        write, excused = self.write, list[str]()
        errors = self.strategy.validate_update(new, self.old, write.subresource)
        errors += custom_schema.errors(write.kind, new, self.old, write.subresource, yielding, excused)
        return errors, excused

    def check(self, new: Object, errors: list[FieldError]) -> None:
        check_write(self.write, new, errors)

    async def approve(self, new: Object) -> None:
        """Runs validating admission; raises the error of the first plugin, webhook, policy or quota that rejects the
        write."""
        assert self._attrs is not None
        if self.write.subresource_view is not None:
            self._attrs.object = self.write.subresource_view.show(new)
        await self._writer.chain.validate(self._attrs)
        self.write.warnings += self._attrs.warnings

    async def store(self, new: Object) -> Written:
        """Writes the object, unless nothing changed. Raises Mismatch if another client wrote it meanwhile."""
        write, key, record, old = self.write, self._key, self.record, self.old
        kind = write.kind
        if deletes.ends_with(kind, new, old):
            if not write.options.dry_run:
                deleted = await self._objects.store.delete(key, record.modified)
                new["metadata"]["resourceVersion"] = str(deleted.revision)
            return Written(new, None)
        if write.subresource in ("", "status"):
            as_stored(kind, new)
        if unchanged(new, old):
            return Written(new, record)
        if write.options.dry_run:
            return Written(new, None)
        if write.stages is not None and write.subresource == "status":
            between = write.stages(new, old, rfc3339(self._objects.clock.now()))
            if between is not None:
                record = await self._objects.put(kind, key, between, record.modified)
        record = await self._objects.put(kind, key, new, record.modified)
        await self._writer.announce(kind, new)
        return Written(new, record)

    def _match_revision(self, new: Object) -> None:
        write, old, record = self.write, self.old, self.record
        kind, meta = write.kind, new.setdefault("metadata", {})
        uid = meta.get("uid")
        if write.replaces and uid and uid != old["metadata"].get("uid"):
            raise precondition_failed(kind, old, uid, dry_run=write.options.dry_run)
        revision = meta.get("resourceVersion")
        if not revision or revision == "0":
            if not self.strategy.unconditional_update:
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise unprocessable(kind.plural, meta.get("name", ""), [error], kind.group)
            meta["resourceVersion"] = str(record.modified)
        elif revision != str(record.modified):
            raise self._objects.modified(kind, old["metadata"]["name"])


def attributes(operation: str, write: Write, obj: Object, old: Object | None) -> Attributes:
    """The attributes for admission."""
    name = write.name or (obj.get("metadata") or {}).get("name", "")
    subresource_view, subresource = write.subresource_view, write.subresource
    if subresource_view is not None:
        subresource, obj, old = (
            subresource_view.subresource,
            subresource_view.show(obj),
            subresource_view.show(old) if old is not None else None,
        )
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
        attrs.dialect, attrs.submitted = dialect, write.submitted
        attrs.resizes = dialect.on_pod and not subresource and old is not None and resizes(obj, old)
    return attrs


def as_stored(kind: Kind, obj: Object) -> None:
    """Replaces empty values by null, in place, like Kubernetes' encoding of stored objects. Custom resources and their
    definitions are exempt, because Kubernetes stores them as JSON."""
    if not kind.custom and kind.group not in _OWN_PLACES and (struct := type_of(kind)) is not None:
        empty_to_null(obj, struct)


def precondition_failed(kind: Kind, stored: Object, wanted: str, field: str = "UID", dry_run: bool = False) -> ApiError:
    """The error 409 for an object with another uid or resourceVersion than the writer expects."""
    mine = stored["metadata"].get("uid" if field == "UID" else "resourceVersion")
    why = (
        f"StorageError: invalid object, Code: 4, Key: {_upstream_key(kind, stored, dry_run)}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {field} in precondition: {wanted}, "
        f"{field} in object meta: {mine}"
    )
    return conflict(kind.plural, stored["metadata"]["name"], why, kind.group)


def _upstream_key(kind: Kind, obj: Object, dry_run: bool) -> str:
    """The storage key as Kubernetes prints it. A dry run fails before Kubernetes adds the prefix of its store."""
    namespace = obj["metadata"].get("namespace")
    place = f"{kind.group}/{kind.plural}" if kind.custom or kind.group in _OWN_PLACES else kind.plural
    parts = ["" if dry_run else "registry", _PLACES.get(place, place), namespace]
    return "".join(f"/{part}" for part in (*parts, obj["metadata"]["name"]) if part)


def check(kind: Kind, obj: Object, errors: list) -> None:  # type: ignore[type-arg]
    if errors:
        # Errors about Events name the core group, whichever of the two groups the client uses.
        group = "" if kind.group == "events.k8s.io" else kind.group
        raise unprocessable(kind.kind, obj["metadata"].get("name", ""), errors, group)


def check_write(write: Write, obj: Object, errors: list[FieldError]) -> None:
    check(write.kind, obj, errors if write.worded is None else write.worded(write.kind, errors, obj))


def _fill_from(meta: Object, stored: Object) -> None:
    """Sets fields that a client may omit in an update, because the server knows them."""
    for name in _FILLED:
        if not meta.get(name) and name in stored:
            meta[name] = stored[name]
    if "generation" in stored:
        meta["generation"] = stored["generation"]
    else:
        meta.pop("generation", None)


def unchanged(new: Object, old: Object) -> bool:
    """Whether an update would write the stored state again. A new time in a managed-fields entry is not a change."""
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
