"""Objects as bytes: encodes their stored form, and splices responses from it.

A stored value is compact JSON that starts with kind, apiVersion and metadata and has no resourceVersion. To show it,
the revision is inserted right after `"metadata":{`, so lists and watch events are joined bytes, never decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.store.backend import Record

_METADATA = b'"metadata":{'
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode(value: Any) -> bytes:
    return _encode(value)


def decode(data: bytes) -> Any:
    return _decode(data)


def stored_value(obj: Object) -> bytes:
    """Encodes an object for the store. `obj` itself is not modified."""
    meta = dict(obj["metadata"])
    meta.pop("resourceVersion", None)
    ordered: Object = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": meta}
    for key, value in obj.items():
        if key not in ordered:
            ordered[key] = value
    return _encode(ordered)


def head_of(kind: str, api_version: str) -> bytes:
    """The start of the stored bytes of every object of a kind and version."""
    return b'{"kind":%b,"apiVersion":%b,' % (_encode(kind), _encode(api_version))


def object_of(record: Record) -> Object:
    """Decodes a new, mutable object, which is faster than copying a decoded one."""
    obj: Object = _decode(record.value)
    obj["metadata"]["resourceVersion"] = str(record.modified)
    return obj


class _OnlyMetadata(msgspec.Struct):
    metadata: msgspec.Raw


_only_metadata = msgspec.json.Decoder(_OnlyMetadata).decode


def metadata_bounds(value: bytes) -> tuple[int, int]:
    """The position of the metadata in a stored value, from after its opening brace to after its closing one."""
    start = value.index(_METADATA) + 12
    return start, start - 1 + len(memoryview(_only_metadata(value).metadata))


def metadata_of(record: Record, revision: int) -> msgspec.Raw:
    """An object's encoded metadata, with the revision inserted. The rest of the object is not read."""
    stored = bytes(memoryview(_only_metadata(record.value).metadata)[1:])
    return msgspec.Raw(b'{"resourceVersion":"%d",%b' % (revision, stored))


def body_of(value: bytes) -> bytes:
    """The text after `"metadata":{`."""
    return value[value.index(_METADATA) + 12 :]


class Splicer:
    """Builds responses of one served kind (group, version) from stored values."""

    __slots__ = ("_head", "_item", "api_version", "custom", "kind", "list_kind")

    def __init__(self, kind: Kind) -> None:
        self.kind, self.api_version, self.list_kind = kind.kind, kind.api_version, kind.list_kind
        self._head = b'{"kind":%b,"apiVersion":%b,"metadata":{"resourceVersion":"' % (
            _encode(kind.kind),
            _encode(kind.api_version),
        )
        self.custom = kind.custom
        # Items of built-in lists have no kind; those of custom resources do.
        self._item = self._head if kind.custom else b'{"metadata":{"resourceVersion":"'

    def object(self, value: bytes, revision: int) -> bytes:
        return b'%b%d",%b' % (self._head, revision, body_of(value))

    def event(self, word: str, value: bytes, revision: int) -> bytes:
        return b'{"type":"%b","object":%b%d",%b}\n' % (word.encode(), self._head, revision, body_of(value))

    def items(self, records: Iterable[Record]) -> list[bytes]:
        head = self._item
        return [b'%b%d",%b' % (head, record.modified, body_of(record.value)) for record in records]

    def frame(self, revision: int, more: Object | None = None) -> tuple[bytes, bytes]:
        """The start and the end of a list, around its items."""
        meta: Object = {"resourceVersion": str(revision)} if revision else {}
        if self.custom:
            meta["continue"] = ""
        if more:
            meta.update(more)
        head = b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[' % (
            _encode(self.list_kind),
            _encode(self.api_version),
            _encode(meta),
        )
        return head, b"]}"
