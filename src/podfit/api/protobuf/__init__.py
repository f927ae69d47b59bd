"""Decodes request bodies in protobuf, the default format of kubectl and kubelets, to JSON.

`to_json` converts a body of type application/vnd.kubernetes.protobuf to the JSON that the same client would have sent;
typed decoding then treats both the same. Fields that `fields.txt` does not list are skipped, as usual in protobuf.
`writing` encodes responses.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from podfit.api.objects import Object
from podfit.api.protobuf import machines
from podfit.api.protobuf.table import MAGIC, MEDIA_TYPE, UNIONS, message_types, root
from podfit.api.text.gojson import GoSyntaxError, parse

__all__ = ["MEDIA_TYPE", "BadProtobuf", "to_json"]

_DEEPEST = 100


class BadProtobuf(ValueError):
    """The bytes are not a message of a supported kind; the text says why."""


def to_json(body: bytes) -> bytes:
    if not body.startswith(MAGIC):
        raise BadProtobuf("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = {number: value for number, _, value in _wire(body[len(MAGIC) :])}
    api_version, kind = _type_meta(envelope.get(1, b""))
    obj: Object = {"apiVersion": api_version, "kind": kind, **_message(_root(api_version, kind), _raw(envelope), 0)}
    return msgspec.json.encode(obj)


def _raw(envelope: dict[int, Any]) -> bytes:
    raw = envelope.get(2, b"")
    if not isinstance(raw, bytes):
        raise BadProtobuf("the envelope holds no message")
    return raw


def _type_meta(data: Any) -> tuple[str, str]:
    if not isinstance(data, bytes):
        raise BadProtobuf("the envelope names no type")
    found = {number: value for number, _, value in _wire(data)}
    return _string(found.get(1, b"")), _string(found.get(2, b""))


def _root(api_version: str, kind: str) -> str:
    name = root(api_version, kind)
    if not name:
        raise BadProtobuf(f'no kind "{kind}" is registered for version "{api_version}" in protobuf')
    return name


def _message(name: str, data: bytes, depth: int) -> Object:
    if depth > _DEEPEST:
        raise BadProtobuf("exceeded max depth")
    fields = message_types()[name]
    obj: Object = {}
    for number, wire, value in _wire(data):
        row = fields.get(number)
        if row is None:
            continue
        field, kind = row
        if kind.startswith("[]"):
            obj.setdefault(field, []).extend(_items(kind[2:], wire, value, depth))
        elif kind.startswith("{}"):
            key, item = _entry(kind[2:], value, depth)
            obj.setdefault(field, {})[key] = item
        elif kind.startswith("^"):
            obj.update(_value(kind[1:], value, depth))
        else:
            obj[field] = _value(kind, value, depth)
    if name in machines.CARRIERS:
        _take_machine(obj)
    return obj


def _take_machine(obj: Object) -> None:
    try:
        machines.take_annotation(obj)
    except ValueError as error:
        raise BadProtobuf(str(error)) from None


def _items(kind: str, wire: int, value: Any, depth: int) -> list[Any]:
    if wire == 2 and kind in ("int", "bool"):
        # Repeated numbers may be packed into one byte string.
        at, packed = 0, []
        while at < len(value):
            number, at = _varint(value, at)
            packed.append(_value(kind, number, depth))
        return packed
    return [_value(kind, value, depth)]


def _entry(kind: str, value: Any, depth: int) -> tuple[str, Any]:
    found = {number: inner for number, _, inner in _wire(_bytes(value))}
    empty: Any = 0 if kind in ("int", "bool") else b""
    return _string(found.get(1, b"")), _value(kind, found.get(2, empty), depth)


def _value(kind: str, value: Any, depth: int) -> Any:
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(value)
    inner = _message(kind, _bytes(value), depth + 1)
    if kind.endswith((".ExtraValue", ".Verbs")):
        # Lists that Go defines as a type of their own are messages with one list.
        return inner.get("items", [])
    other = UNIONS.get(kind)
    return inner if other is None else inner["schema"] if "schema" in inner else inner.get(*other)


# --- scalars --------------------------------------------------------------------------------------------------------


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise BadProtobuf("wrong wire type")
    return value


def _string(value: Any) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise BadProtobuf("string field contains invalid UTF-8") from None


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise BadProtobuf("wrong wire type")
    return value - (1 << 64) if value >> 63 else value


def _bool(value: Any) -> bool:
    return bool(_int(value))


def _double(value: Any) -> float:
    return float(struct.unpack("<d", _int(value).to_bytes(8, "little", signed=True))[0])


def _base64(value: Any) -> str:
    return base64.b64encode(_bytes(value)).decode()


def _quantity(value: Any) -> str:
    return next((_string(text) for number, _, text in _wire(_bytes(value)) if number == 1), "0")


def _int_or_string(value: Any) -> int | str:
    found = {number: inner for number, _, inner in _wire(_bytes(value))}
    return _string(found.get(3, b"")) if found.get(1) else _int(found.get(2, 0))


def _seconds(value: Any) -> tuple[int, int] | None:
    found = {number: inner for number, _, inner in _wire(_bytes(value))}
    return (_int(found.get(1, 0)), _int(found.get(2, 0))) if found else None


def _time(value: Any) -> str | None:
    moment = _seconds(value)
    return None if moment is None else f"{_second(moment[0])}Z"


def _micro_time(value: Any) -> str | None:
    moment = _seconds(value)
    return None if moment is None else f"{_second(moment[0])}.{moment[1] // 1000:06d}Z"


def _second(seconds: int) -> str:
    """Years have four digits, also those before 1000: strftime does not pad them."""
    return f"{_date(seconds):%Y-%m-%dT%H:%M:%S}".rjust(19, "0")


def _date(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise BadProtobuf(f"time {seconds} is out of range") from None


def _embedded(value: Any) -> Any:
    raw = next((text for number, _, text in _wire(_bytes(value)) if number == 1), b"")
    try:
        return parse(raw) if raw else None
    except GoSyntaxError:
        raise BadProtobuf("a raw field holds no JSON") from None


_READERS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "int": _int,
    "bool": _bool,
    "double": _double,
    "bytes": _base64,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "time": _time,
    "microtime": _micro_time,
    "raw": _embedded,
}


# --- the wire -------------------------------------------------------------------------------------------------------


def _wire(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """(field number, wire type, value): an int for numbers, bytes for everything with a length."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise BadProtobuf(f"unknown wire type {wire}")
        if at + size > len(data):
            raise BadProtobuf("unexpected EOF")
        piece = data[at : at + size]
        at += size
        yield number, wire, piece if wire == 2 else int.from_bytes(piece, "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data):
            raise BadProtobuf("unexpected EOF")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise BadProtobuf("proto: integer overflow")
