"""The forms of objects in responses: spliced JSON, converted JSON, metadata only. Tables are in `tables`.

A form converts records (or an object that is not stored) to response bytes and watch events. Forms of one kind are
shared by all clients, except tables: these belong to one request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.apiserver.apis import conversion
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.hidden import hides, shown_metadata
from podfit.store.backend import Record

Row = Record | Object


class Form(Protocol):
    def object(self, row: Row) -> bytes: ...

    def items(self, rows: Sequence[Record]) -> list[bytes]:
        """The items of a list."""

    def frame(self, revision: int, more: Object | None, empty: bool) -> tuple[bytes, bytes]:
        """The start and the end of a list. `empty`: there are no items."""

    def event(self, word: str, record: Record, revision: int) -> bytes: ...

    def bookmark(self, revision: int, annotations: Object | None = None) -> bytes: ...


def bookmark_of(api_version: str, kind: str, revision: int, annotations: Object | None) -> bytes:
    meta: Object = {"resourceVersion": str(revision)}
    if annotations:
        meta["annotations"] = annotations
    return (
        wire.encode({"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": meta}}) + b"\n"
    )


def event_of(word: str, data: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (word.encode(), data)


class Spliced:
    """Stored bytes with the revision spliced in: used for nearly every request."""

    def __init__(self, splicer: wire.Splicer) -> None:
        self._splicer = splicer

    @property
    def as_stored(self) -> bool:
        """Whether the form shows objects as stored, in every requested version."""
        return not self._splicer.custom

    @property
    def keeps(self) -> bool:
        """Whether the items of a list can be cached for other requests."""
        return True

    def object(self, row: Row) -> bytes:
        if isinstance(row, Record):
            return self._splicer.object(row.value, row.modified)
        return wire.encode(row)

    def items(self, rows: Sequence[Record]) -> list[bytes]:
        return self._splicer.items(rows)

    def frame(self, revision: int, more: Object | None, empty: bool) -> tuple[bytes, bytes]:
        return self._splicer.frame(revision, more)

    def event(self, word: str, record: Record, revision: int) -> bytes:
        return self._splicer.event(word, record.value, revision)

    def bookmark(self, revision: int, annotations: Object | None = None) -> bytes:
        return bookmark_of(self._splicer.api_version, self._splicer.kind, revision, annotations)


class Converted:
    """The form of kinds that are stored in a different form: records are decoded, converted and encoded."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def _converted_object(self, row: Row) -> Object:
        return conversion.to_served(self._kind, wire.object_of(row)) if isinstance(row, Record) else row

    def object(self, row: Row) -> bytes:
        return wire.encode(self._converted_object(row))

    def items(self, rows: Sequence[Record]) -> list[bytes]:
        items = []
        for row in rows:
            obj = self._converted_object(row)
            obj.pop("kind", None)
            obj.pop("apiVersion", None)
            items.append(wire.encode(obj))
        return items

    def frame(self, revision: int, more: Object | None, empty: bool) -> tuple[bytes, bytes]:
        return frame_of(self._kind.list_kind, self._kind.api_version, revision, more)

    def event(self, word: str, record: Record, revision: int) -> bytes:
        obj = self._converted_object(record)
        obj["metadata"]["resourceVersion"] = str(revision)
        return event_of(word, wire.encode(obj))

    def bookmark(self, revision: int, annotations: Object | None = None) -> bytes:
        return bookmark_of(self._kind.api_version, self._kind.kind, revision, annotations)


Event = tuple[str, Record, int]


class HeldEvents:
    """A placeholder form for one watcher, whose events are held until their objects have been converted elsewhere and
    are sent.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []

    def event(self, word: str, record: Record, revision: int) -> bytes:
        self._events.append((word, record, revision))
        return b""

    def take(self) -> list[Event]:
        events, self._events = self._events, []
        return events


class MetadataOnly:
    """PartialObjectMetadata and its list."""

    def __init__(self, version: str = "v1", kind: Kind | None = None) -> None:
        self.api_version = f"meta.k8s.io/{version}"
        self._hides = kind is not None and hides(kind)

    def _metadata(self, record: Record, revision: int) -> Any:
        metadata = wire.metadata_of(record, revision)
        return shown_metadata(json.loads(bytes(metadata))) if self._hides else metadata

    def _partial(self, metadata: Any) -> Object:
        return {"kind": "PartialObjectMetadata", "apiVersion": self.api_version, "metadata": metadata}

    def object(self, row: Row) -> bytes:
        if isinstance(row, Record):
            return wire.encode(self._partial(self._metadata(row, row.modified)))
        return wire.encode(self._partial(shown_metadata(row["metadata"]) if self._hides else row["metadata"]))

    def items(self, rows: Sequence[Record]) -> list[bytes]:
        return [wire.encode(self._partial(self._metadata(row, row.modified))) for row in rows]

    def frame(self, revision: int, more: Object | None, empty: bool) -> tuple[bytes, bytes]:
        head, tail = frame_of("PartialObjectMetadataList", self.api_version, revision, more)
        # Kubernetes lists no metadata as null, unlike no objects.
        return (head.removesuffix(b"[") + b"null}", b"") if empty else (head, tail)

    def event(self, word: str, record: Record, revision: int) -> bytes:
        return event_of(word, wire.encode(self._partial(self._metadata(record, revision))))

    def bookmark(self, revision: int, annotations: Object | None = None) -> bytes:
        return bookmark_of(self.api_version, "PartialObjectMetadata", revision, annotations)


def frame_of(kind: str, api_version: str, revision: int, more: Object | None) -> tuple[bytes, bytes]:
    meta: Object = {"resourceVersion": str(revision)} if revision else {}
    meta.update(more or {})
    return wire.encode({"kind": kind, "apiVersion": api_version, "metadata": meta})[:-1] + b',"items":[', b"]}"
