"""A local copy of a collection, kept current by list and watch, that notifies subscribers of changes.

The copy survives outages of the server: it resumes from the last revision, or lists again and reports the difference.
Subscribers never miss that something changed, but may miss intermediate states, as with any Kubernetes client.
managedFields (half of an object) are not stored. Cached objects are shared: read only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass

from podfit.api.objects import Object, freeze
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, RealClock

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""(namespace, name)"""
Handler = Callable[[Object | None, Object | None], None]
"""Called with (before, after): before is None for an added object, after is None for a deleted one. Must not block."""


@dataclass(frozen=True, slots=True)
class Index:
    """Indexes objects by the values that a function returns."""

    values: Callable[[Object], Iterable[str]]
    field: tuple[str, str] | None
    """The field that the values are derived from, as ("spec", "nodeName"); None if they depend on name and namespace
    only. An object is not reindexed while this field is unchanged."""


BY_NAMESPACE = Index(lambda obj: (obj["metadata"].get("namespace", ""),), None)


def key_of(obj: Object) -> Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


class Cache:
    def __init__(
        self,
        client: Client,
        kind: Kind,
        namespace: str = "",
        *,
        indexes: Mapping[str, Index] | None = None,
        clock: Clock | None = None,
        page: int = 0,
        trim: Callable[[Object], Object] | None = None,
        **query: str,
    ) -> None:
        """`query` contains selectors in API spelling (fieldSelector="spec.nodeName=n1"); `page` limits list chunks.

        `trim` selects the part of an object to store, for large collections of which little is read. Objects that are
        shared with other components of the process are stored whole: a trimmed copy would use more memory.
        """
        self.client, self.kind, self.namespace, self.query = client, kind, namespace, query
        self.ready = asyncio.Event()
        self._clock = clock or RealClock()
        self._page = page
        self._trim = trim
        self._trim_event = None if client.shares else trim
        self._objects: dict[Key, Object] = {}
        self._handlers: list[Handler] = []
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in indexes or {}}
        self._indexed: dict[tuple[str, str] | None, list[tuple[dict[str, dict[Key, None]], Index]]] = {}
        """Indexes by the field that they depend on."""
        for name, index in (indexes or {}).items():
            self._indexed.setdefault(index.field, []).append((self._indexes[name], index))
        self._revision = ""
        self._listed = ""
        """The revision of the last list."""
        self._backoff = Backoff(0.05, 5.0, jitter=0.2)
        self._relists = Backoff(0.05, 5.0, jitter=0.2)
        self.connected = False

    # --- reading
    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get((namespace, name))

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        return len(self._objects)

    def by(self, index: str, value: str) -> list[Object]:
        """The objects for which the index function returns `value`."""
        found, objects = self._indexes[index].get(value), self._objects
        return [objects[key] for key in found] if found else []

    def subscribe(self, handler: Handler) -> None:
        """Calls the handler for each change, and at once for objects that already exist."""
        self._handlers.append(handler)
        for obj in self:
            handler(None, obj)

    # --- following
    async def run(self) -> None:
        """Follows the collection until cancelled."""
        while True:
            try:
                if not self._revision:
                    await self._list()
                await self._watch()
                self._backoff.forget()
            except ApiError as error:
                self.connected = False
                if error.code == 410:
                    await self._expired()
                    continue
                log.warning("watching %s: %s", self.kind.plural, error)
                await self._clock.sleep(self._backoff.next())
            except Unreachable as error:
                self.connected = False
                if getattr(self.client.transport, "new_outage", bool)():
                    log.warning("%s Retrying until it answers.", _sentence(str(error)))
                else:
                    log.info("watching %s: %s", self.kind.plural, error)
                await self._clock.sleep(self._backoff.next())

    async def _expired(self) -> None:
        """Requests a new list: at once if the watch made progress since the last list, otherwise after a backoff."""
        if self._revision not in ("", self._listed):
            self._relists.forget()
        else:
            await self._clock.sleep(self._relists.next())
        self._revision = ""

    async def _list(self) -> None:
        query = dict(self.query)
        if self._page:
            query["limit"] = str(self._page)
        found: dict[Key, Object] = {}
        while True:
            answer = await self.client.list(self.kind, self.namespace, **query)
            for obj in answer.get("items") or []:
                # Some servers omit the kind from the items of a list; consumers expect it on every object.
                obj.setdefault("kind", self.kind.kind)
                obj.setdefault("apiVersion", self.kind.api_version)
                obj["metadata"].pop("managedFields", None)
                found[key_of(obj)] = self._trim(obj) if self._trim else obj
            token = answer["metadata"].get("continue")
            if not token:
                break
            query["continue"] = token
        self._replace(found)
        self._revision = self._listed = answer["metadata"]["resourceVersion"]
        self.connected = True
        self._backoff.forget()
        self.ready.set()

    def _replace(self, found: dict[Key, Object]) -> None:
        for key in [key for key in self._objects if key not in found]:
            self._put(key, None)
        for key, obj in found.items():
            before = self._objects.get(key)
            if before is None or before["metadata"].get("resourceVersion") != obj["metadata"].get("resourceVersion"):
                self._put(key, obj)

    async def _watch(self) -> None:
        query = {**self.query, "resourceVersion": self._revision, "allowWatchBookmarks": "true"}
        async with aclosing(self.client.follow(self.kind, self.namespace, query, self._take)) as events:
            async for event, obj in events:
                self._take(event, obj)

    def _take(self, event: str, obj: Object) -> None:
        self.connected = True
        meta = obj["metadata"]
        if event != "BOOKMARK":
            if "managedFields" in meta:
                # Copied because others may share the object.
                meta = {key: value for key, value in meta.items() if key != "managedFields"}
                obj = {**obj, "metadata": meta}
            kept = self._trim_event(obj) if self._trim_event else obj
            self._put((meta.get("namespace", ""), meta["name"]), None if event == "DELETED" else kept, kept)
        self._revision = meta["resourceVersion"]

    def _put(self, key: Key, after: Object | None, last: Object | None = None) -> None:
        before = self._objects.get(key)
        if after is not None:
            # Shared by subscribers and readers.
            after = self._objects[key] = freeze(after)
        elif before is not None:
            del self._objects[key]
        else:
            return
        for field, indexes in self._indexed.items():
            if before is None or after is None or (field is not None and not _keeps_field(field, before, after)):
                for filed, index in indexes:
                    _refile(filed, index, key, before, after)
        if after is None and last is not None:
            before = last
        for handler in self._handlers:
            try:
                handler(before, after)
            except Exception:
                log.exception("a subscriber of %s failed", self.kind.plural)


def _keeps_field(field: tuple[str, str], before: Object, after: Object) -> bool:
    part, name = field
    was, now = before.get(part), after.get(part)
    if was is now:
        return True
    if not was or not now:
        return False
    one, other = was.get(name), now.get(name)
    return one is other or bool(one == other)


def _refile(
    filed: dict[str, dict[Key, None]], index: Index, key: Key, before: Object | None, after: Object | None
) -> None:
    old = tuple(index.values(before)) if before is not None else ()
    new = tuple(index.values(after)) if after is not None else ()
    for value in set(old).difference(new):
        left = filed.get(value, {})
        left.pop(key, None)
        if not left:
            filed.pop(value, None)
    for value in new:
        filed.setdefault(value, {})[key] = None


def _sentence(text: str) -> str:
    return text if text.endswith(("?", ".")) else f"{text}."
