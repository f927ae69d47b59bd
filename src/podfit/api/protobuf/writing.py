"""Encodes objects as protobuf, from their JSON, for clients that accept application/vnd.kubernetes.protobuf.

A type of the table becomes a struct with only the fields that protobuf has, so decoding skips all others and keeps
embedded JSON (most of managedFields) unchanged. Messages that many objects share, or that stay the same while the
object around them changes, are decoded and encoded once and then looked up by their JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from podfit.api.protobuf.machines import CARRIERS, with_annotation
from podfit.api.protobuf.scalars import WRITERS, Write, delimited, field, length, varint
from podfit.api.protobuf.table import MAGIC, UNIONS, message_types, root

_SHARED = frozenset(
    (
        *("core.PodSpec", "core.Container", "core.Volume", "core.Toleration", "core.PodCondition", "core.Affinity"),
        *("core.PodTemplateSpec", "meta.OwnerReference", "core.ContainerStatus", "meta.LabelSelector"),
    )
)
"""Types that are looked up by their JSON."""
_ALSO = {("core.ContainerResizePolicy", 2): "policy"}
"""The JSON name of a field in a version of the API that was designed and not released."""
_MOST, _LONGEST = 8192, 16 * 1024
_astuple = msgspec.structs.astuple


class Unwritable(ValueError):
    """A value has no message; the text says why."""


class Message:
    """The decoder (from JSON) and encoder of messages of one type."""

    def __init__(self, name: str, above: frozenset[str]) -> None:
        self._above = above | {name}
        self._carries_machine = name in CARRIERS
        self._fields: list[Any] = []
        self._writers: list[Write] = []
        self._inlined: list[tuple[int, int, bytes]] = []
        """First and last (exclusive) of the encoders whose fields are in a nested message, and its tag; inner ones
        first."""
        self._add(name)
        struct = msgspec.defstruct(name.replace(".", "_"), self._fields)
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(struct).decode
        self.struct = struct

    def _add(self, name: str) -> None:
        for number, (json_name, kind) in sorted(message_types()[name].items()):
            if kind.startswith("^"):
                start = len(self._writers)
                self._add(kind[1:])
                self._inlined.append((start, len(self._writers), delimited(number)))
                continue
            read, write = _field(kind, number, self._above)
            for called in (json_name, _ALSO.get((name, number))):
                if called is not None:
                    position = f"f{len(self._fields)}"
                    self._fields.append((position, read if read is msgspec.Raw else read | None, _named(called)))
                    self._writers.append(write)

    def of(self, json: bytes) -> bytes:
        return self.written(self._decode(with_annotation(json) if self._carries_machine else json))

    def written(self, value: Any) -> bytes:
        pieces = [
            write(given) if given is not None else b""
            for given, write in zip(_astuple(value), self._writers, strict=True)
        ]
        for start, stop, tag in self._inlined:
            inner = b"".join(pieces[start:stop])
            pieces[start:stop] = [_tagged(tag, inner)] + [b""] * (stop - start - 1)
        return b"".join(pieces)


def _named(json_name: str) -> Any:
    return msgspec.field(name=json_name, default=None)


def _field(kind: str, number: int, above: frozenset[str]) -> tuple[Any, Write]:
    """The JSON type of a field, and its encoder."""
    if kind.startswith("[]"):
        read, write = _field(kind[2:], number, above)
        return list[read], lambda values: b"".join([write(value) for value in values])  # type: ignore[valid-type]
    if kind.startswith("{}"):
        read, write = _field(kind[2:], 2, above)
        return dict[str, read], _map(number, write)  # type: ignore[valid-type]
    if kind in WRITERS:
        read, make = WRITERS[kind]
        return read, make(number)
    tag = delimited(number)
    if kind.endswith((".ExtraValue", ".Verbs")):
        items = WRITERS["string"][1](1)
        return list[str], lambda values: _tagged(tag, b"".join([items(value) for value in values]))
    if kind in UNIONS or kind in above or kind in _SHARED:
        return msgspec.Raw, _apart(tag, kind)
    inner = Message(kind, above)
    written = inner.written
    return inner.struct, lambda value: _tagged(tag, written(value))


def _tagged(tag: bytes, data: bytes) -> bytes:
    return tag + length(data) + data


def _map(number: int, write: Write) -> Write:
    tag, key_field = delimited(number), WRITERS["string"][1](1)
    return lambda values: b"".join([_tagged(tag, key_field(key) + write(values[key])) for key in sorted(values)])


def _apart(tag: bytes, kind: str) -> Write:
    """A message that is decoded separately: recursive ones, those with several forms, and shared ones."""
    known: dict[bytes, bytes] = {}
    shared = kind in _SHARED

    def write(raw: msgspec.Raw) -> bytes:
        json = bytes(raw)
        found = known.get(json)
        if found is not None:
            return found
        if json == b"null":
            return b""
        data = _tagged(tag, _union(kind, json) if kind in UNIONS else message(kind).of(json))
        if shared and len(json) <= _LONGEST:
            if len(known) >= _MOST:
                known.clear()
            known[json] = data
        return data

    return write


def _union(kind: str, json: bytes) -> bytes:
    """Encodes a value whose type is a schema or something else, like `JSONSchemaPropsOrBool`."""
    rows = {name: (number, what) for number, (name, what) in message_types()[kind].items()}
    number, _ = rows["schema"]
    if json[:1] == b"{":
        allows = b"\x08\x01" if kind.endswith("OrBool") else b""
        return allows + field(number, message("apiextensions.JSONSchemaProps").of(json))
    other, what = rows[UNIONS[kind][0]]
    read, write = _field(what, other, frozenset())
    return write(msgspec.json.decode(json, type=read))


@lru_cache(maxsize=1024)
def message(name: str) -> Message:
    return Message(name, frozenset())


# --- whole bodies ---------------------------------------------------------------------------------------------------


class _Typed(msgspec.Struct):
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")


class _Listed(msgspec.Struct):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    items: list[msgspec.Raw] | None = None


_typed, _listed = msgspec.json.Decoder(_Typed).decode, msgspec.json.Decoder(_Listed).decode


def knows(api_version: str, kind: str) -> bool:
    return bool(root(api_version, kind))


def message_of(api_version: str, kind: str) -> Message:
    name = root(api_version, kind)
    if not name:
        raise Unwritable(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
    return message(name)


def from_json(body: bytes) -> bytes:
    """A complete response body. Raises `Unwritable` for kinds that protobuf does not have."""
    typed = _typed(body)
    api_version, kind = typed.api_version, typed.kind
    if kind.endswith("List") and not knows(api_version, kind):
        item = message_of(api_version, kind.removesuffix("List"))
        listed = _listed(body)
        items = [field(2, item.of(bytes(element))) for element in listed.items or ()]
        raw = field(1, message("meta.ListMeta").of(bytes(listed.metadata))) + b"".join(items)
    else:
        raw = message_of(api_version, kind).of(body)
    return opening(api_version, kind, len(raw)) + raw


def opening(api_version: str, kind: str, size: int) -> bytes:
    """The prefix of a response whose message is `size` bytes long."""
    typed = field(1, api_version.encode()) + field(2, kind.encode())
    return MAGIC + field(1, typed) + delimited(2) + varint(size)
