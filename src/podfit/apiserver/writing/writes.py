"""The steps of a write: defaults, mutating admission, strategy, validation, validating admission, store.

Creates are implemented here. Updates are attempts (`attempt`), which are repeated after a conflict. An update that
changes nothing writes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError, already_exists, bad_request, not_found
from podfit.apiserver.admission.base import CREATE
from podfit.apiserver.admission.chain import Chain
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.strategy import Strategy, strategy_for
from podfit.apiserver.strategy.meta import unique_owners
from podfit.apiserver.writing import custom_schema
from podfit.apiserver.writing.attempt import Attempt, as_stored, attributes, check_write
from podfit.apiserver.writing.evaluation import evaluated
from podfit.apiserver.writing.write import Change, Write, Written
from podfit.kit.clock import rfc3339
from podfit.kit.concurrency.worker_threads import LARGE, WorkerThreads
from podfit.kit.uids import new_uid
from podfit.store.backend import Mismatch, Record

RETRIES = 256
"""How often a write without a revision is retried after conflicts. Kubernetes never gives up before the request times
out; a bound keeps a bug from spinning."""
_NAME_TRIES = 8


class Writer:
    def __init__(self, objects: Objects, chain: Chain) -> None:
        self.objects, self.chain = objects, chain
        self.threads = WorkerThreads()
        self.before_create: dict[tuple[str, str], Callable[[Object, bool], None]] = {}
        """By (group, plural): allocations before validation (cluster addresses); a dry run allocates nothing."""
        self.before_update: dict[tuple[str, str], Callable[[Object, Object, bool], None]] = {}
        """The same for an update, from the new object and the stored one."""
        self.after_write: dict[str, Callable[[Object], Awaitable[None] | None]] = {}
        """By storage prefix: listeners that must process objects before the writes of them are answered."""

    # --- create ---------------------------------------------------------------------------------------------------

    async def create(self, write: Write, obj: Object) -> Written:
        kind, strategy = write.kind, write.strategy or strategy_for(write.kind)
        meta = obj.setdefault("metadata", {})
        match_namespace(meta, write.namespace)
        write.warnings += unique_owners(meta)
        if (track := write.track) is not None:
            # Managers are recorded before admission: fields added by plugins have no manager, so that no applier
            # removes them.
            await self.threads.run(write.size, lambda: track(obj, None))
        attrs = attributes(CREATE, write, obj, None)
        await self.chain.admit(attrs)
        made = attrs.object or obj
        write.warnings += unique_owners(made["metadata"], admitted=True)
        tries = 1 if made["metadata"].get("name") else _NAME_TRIES
        self._fill_system_fields(made["metadata"], strategy)
        attrs.name = made["metadata"].get("name", "")
        await self.threads.run(write.size, lambda: self._prepare(write, strategy, made))
        size = LARGE if strategy.heavy(made) else write.size
        errors = await evaluated(
            self.threads,
            size,
            lambda yielding: strategy.validate_create(made) + custom_schema.errors(kind, made, yielding=yielding),
        )
        check_write(write, made, errors)
        write.warnings += strategy.warnings_create(made)
        await self.chain.validate(attrs)
        write.warnings += attrs.warnings
        return await self._insert(write, strategy, made, tries)

    def _prepare(self, write: Write, strategy: Strategy, obj: Object) -> None:
        write.warnings += strategy.rewrite(obj)
        strategy.prepare_create(obj)
        if (allot := self.before_create.get((write.kind.group, write.kind.plural))) is not None:
            allot(obj, write.options.dry_run)

    async def install(self, kind: Kind, namespace: str, obj: Object) -> None:
        """Stores one of the server's own objects if it does not exist, without admission and validation."""
        strategy = strategy_for(kind)
        custom_schema.default(kind, obj)
        self._fill_system_fields(obj["metadata"], strategy)
        known = {"status": obj["status"]} if "status" in obj else {}
        strategy.prepare_create(obj)
        obj.update(known)
        if (allot := self.before_create.get((kind.group, kind.plural))) is not None:
            allot(obj, False)
        try:
            await self.objects.put(kind, kind.key(namespace, obj["metadata"]["name"]), obj, 0)
        except Mismatch:
            pass

    async def _insert(self, write: Write, strategy: Strategy, obj: Object, tries: int) -> Written:
        """Inserts the object. If its name is generated, a conflict leads to another attempt with a new name."""
        kind, meta = write.kind, obj["metadata"]
        if not write.options.dry_run and _states_a_revision(meta):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        while True:
            key = kind.key(meta.get("namespace", ""), meta["name"])
            as_stored(kind, obj)
            if write.options.dry_run:
                present = self.objects.store.get(key)
                if present is None:
                    return Written(obj, None)
            else:
                try:
                    record = await self.objects.put(kind, key, obj, 0)
                    await self.announce(kind, obj)
                    return Written(obj, record)
                except Mismatch as lost:
                    present = lost.current
            tries -= 1
            if not tries:
                raise self._in_the_way(kind, meta, present)
            meta["name"] = strategy.generate_name(meta["generateName"])

    def _in_the_way(self, kind: Kind, meta: Object, present: Record | None) -> ApiError:
        """The error 409 for a name that is already in use."""
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
        """Updates an object; `change` makes the new object from the stored one."""
        return await self.attempts(write, lambda attempt: _updated(attempt, change), retry)

    async def attempts(
        self, write: Write, once: Callable[[Attempt], Awaitable[Written]], retry: bool = True
    ) -> Written:
        """Calls `once` again after a conflict; without `retry`, the conflict is returned at once."""
        kind = write.kind
        key = kind.key(write.namespace, write.name)
        for number in range(RETRIES):
            record = self.objects.store.get(key)
            if record is None:
                raise not_found(kind.plural, write.name, kind.group)
            if kind.custom:
                record = (await self.objects.shown(kind, (record,)))[0]
            warned = len(write.warnings)
            try:
                return await once(Attempt(self, write, key, record))
            except Mismatch as lost:
                if not retry or number == RETRIES - 1:
                    if lost.current is None:
                        raise not_found(kind.plural, write.name, kind.group) from None
                    break
                del write.warnings[warned:]
        raise self.objects.modified(kind, write.name)

    async def announce(self, kind: Kind, obj: Object) -> None:
        if (learn := self.after_write.get(kind.storage_prefix)) is not None and (more := learn(obj)) is not None:
            await more


async def _updated(attempt: Attempt, change: Change) -> Written:
    new = await attempt.changed(change)
    new = await attempt.admit(new)
    await attempt.prepare(new)
    await attempt.validate(new)
    await attempt.approve(new)
    return await attempt.store(new)


async def rewrite(
    objects: Objects, kind: Kind, namespace: str, name: str, change: Callable[[Object], None], dry_run: bool
) -> None:
    """Applies a change of the server's own to a stored object, without admission. Starts over with the newest state
    after a conflict."""
    for _ in range(RETRIES):
        record = objects.required(kind, namespace, name)
        obj = objects.served(kind, record)
        change(obj)
        if dry_run:
            return
        try:
            await objects.put(kind, record.key, obj, record.modified)
            return
        except Mismatch:
            continue
    raise objects.modified(kind, name)


def _states_a_revision(meta: Object) -> bool:
    """Whether the object has a resourceVersion. Values that are not numbers do not count."""
    revision = meta.get("resourceVersion") or ""
    return revision.isascii() and revision.isdecimal() and bool(revision.lstrip("0"))


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
