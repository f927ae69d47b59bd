"""The version 2 document in protocol buffers, the only format that kubectl before 1.29 can read.

The messages are those of the openapi_v2 package; each row below has a JSON key, its field number and its encoder. Keys
without a row (which version 2 cannot express) are omitted. Built from `openapi.swagger`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Writer = Callable[[Any], bytes]
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def swagger_protobuf(document: dict[str, Any]) -> bytes:
    return _DOCUMENT(document)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _flag(number: int) -> Writer:
    return lambda value: _varint(number << 3) + _varint(1) if value else b""


def _text(number: int) -> Writer:
    return lambda value: _bytes(number, str(value).encode())


def _texts(number: int) -> Writer:
    return lambda value: b"".join(_bytes(number, item.encode()) for item in value)


def _one(number: int, writer: Writer) -> Writer:
    return lambda value: _bytes(number, writer(value))


def _many(number: int, writer: Writer) -> Writer:
    return lambda value: b"".join(_bytes(number, writer(item)) for item in value)


def _named(number: int, writer: Writer) -> Writer:
    """Encodes a map as messages of a name and a value."""

    def write(value: dict[str, Any]) -> bytes:
        pairs = ((name.encode(), writer(item)) for name, item in value.items())
        return b"".join(_bytes(number, _bytes(1, name) + _bytes(2, item)) for name, item in pairs)

    return write


def _any(value: Any) -> bytes:
    """Encodes a free-form value. The format requires YAML, and JSON is YAML."""
    return _bytes(2, json.dumps(value).encode())


def _message(extensions: int, **rows: Writer) -> Writer:
    """Encodes a message by its keys; keys that start with `x-` go to its field for extensions."""
    write_extensions = _named(extensions, _any)

    def write(value: dict[str, Any]) -> bytes:
        out = [rows[key](item) for key, item in value.items() if key in rows]
        more = {key: item for key, item in value.items() if key.startswith("x-")}
        return b"".join(out) + (write_extensions(more) if more else b"")

    return write


def _schema(value: dict[str, Any]) -> bytes:
    return _SCHEMA(value)


def _types(value: str | list[str]) -> bytes:
    return _texts(1)([value] if isinstance(value, str) else value)


def _additional(value: dict[str, Any] | bool) -> bytes:
    return _flag(2)(value) if isinstance(value, bool) else _bytes(1, _schema(value))


_SCHEMA = _message(
    31,
    **{
        "$ref": _text(1),
        "format": _text(2),
        "title": _text(3),
        "description": _text(4),
        "default": _one(5, _any),
        "pattern": _text(13),
        "uniqueItems": _flag(16),
        "required": _texts(19),
        "enum": _many(20, _any),
        "additionalProperties": _one(21, _additional),
        "type": _one(22, _types),
        "items": _one(23, lambda value: _bytes(1, _schema(value))),
        "allOf": _many(24, _schema),
        "properties": _one(25, _named(1, _schema)),
    },
)
_BODY_PARAMETER = _message(6, name=_text(2), required=_flag(4), schema=_one(5, _schema), **{"in": _text(3)})
_QUERY_PARAMETER = _message(
    23, required=_flag(1), name=_text(4), type=_text(6), uniqueItems=_flag(20), **{"in": _text(2)}
)
_PATH_PARAMETER = _message(
    22, required=_flag(1), name=_text(4), type=_text(5), uniqueItems=_flag(19), **{"in": _text(2)}
)


def _parameter(value: dict[str, Any]) -> bytes:
    if value["in"] == "body":
        return _bytes(1, _bytes(1, _BODY_PARAMETER(value)))
    kind = _bytes(3, _QUERY_PARAMETER(value)) if value["in"] == "query" else _bytes(4, _PATH_PARAMETER(value))
    return _bytes(1, _bytes(2, kind))


def _response(value: dict[str, Any]) -> bytes:
    message = _message(5, description=_text(1), schema=_one(2, lambda schema: _bytes(1, _schema(schema))))
    return _bytes(1, message(value))


_OPERATION = _message(
    13,
    tags=_texts(1),
    operationId=_text(5),
    produces=_texts(6),
    consumes=_texts(7),
    parameters=_many(8, _parameter),
    responses=_one(9, _named(1, _response)),
    schemes=_texts(10),
)
_PATH_ITEM = _message(
    10,
    get=_one(2, _OPERATION),
    put=_one(3, _OPERATION),
    post=_one(4, _OPERATION),
    delete=_one(5, _OPERATION),
    options=_one(6, _OPERATION),
    head=_one(7, _OPERATION),
    patch=_one(8, _OPERATION),
    parameters=_many(9, _parameter),
)
_API_KEY = _message(5, type=_text(1), name=_text(2), description=_text(4), **{"in": _text(3)})
_DOCUMENT = _message(
    16,
    swagger=_text(1),
    info=_one(2, _message(7, title=_text(1), version=_text(2))),
    paths=_one(8, _named(2, _PATH_ITEM)),
    definitions=_one(9, _named(1, _schema)),
    security=_many(12, _named(1, _texts(1))),
    securityDefinitions=_one(13, _named(1, lambda value: _bytes(2, _API_KEY(value)))),
)
