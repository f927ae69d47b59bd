"""Encodes fields of protobuf messages: tags, lengths and values, from JSON."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from podfit.api.text.remember import remembered

Write = Callable[[Any], bytes]
"""Writes a whole field, tag and length included."""


def varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_SHORT = 2048
_LENGTHS = [varint(size) for size in range(_SHORT)]


def length(data: bytes) -> bytes:
    size = len(data)
    return _LENGTHS[size] if size < _SHORT else varint(size)


def delimited(number: int) -> bytes:
    """The tag of a field with a length."""
    return varint(number << 3 | 2)


def field(number: int, data: bytes) -> bytes:
    return delimited(number) + length(data) + data


def _string(number: int) -> Write:
    tag = delimited(number)

    def write(text: str) -> bytes:
        data = text.encode(errors="surrogatepass")
        return tag + length(data) + data

    return write


def _int(number: int) -> Write:
    tag = varint(number << 3)
    return lambda value: tag + varint(int(value))


def _bool(number: int) -> Write:
    yes, no = varint(number << 3) + b"\x01", varint(number << 3) + b"\x00"
    return lambda value: yes if value else no


def _double(number: int) -> Write:
    tag = varint(number << 3 | 1)
    return lambda value: tag + struct.pack("<d", value)


def _bytes(number: int) -> Write:
    return lambda text: field(number, base64.b64decode(text))


def _quantity(number: int) -> Write:
    tag = delimited(number)

    def write(value: Any) -> bytes:
        inner = _of_text(str(value))
        return tag + length(inner) + inner

    return write


@remembered(4096)
def _of_text(text: str) -> bytes:
    return field(1, text.encode())


def _int_or_string(number: int) -> Write:
    tag = delimited(number)

    def write(value: int | str) -> bytes:
        if isinstance(value, str):
            inner = b"\x08\x01\x10\x00" + field(3, value.encode(errors="surrogatepass"))
        else:
            inner = b"\x08\x00\x10" + varint(int(value)) + b"\x1a\x00"
        return tag + length(inner) + inner

    return write


@remembered(4096)
def _moment(text: str) -> bytes:
    when = datetime.fromisoformat(text)
    whole = when.replace(microsecond=0)
    return b"\x08" + varint(round(whole.timestamp())) + b"\x10" + varint(when.microsecond * 1000)


def _time(number: int) -> Write:
    tag = delimited(number)

    def write(text: str) -> bytes:
        inner = _moment(text)
        return tag + length(inner) + inner

    return write


def _raw(number: int) -> Write:
    """JSON embedded in a message, unchanged."""
    tag = delimited(number)

    def write(raw: msgspec.Raw) -> bytes:
        data = bytes(raw)
        inner = b"\x0a" + length(data) + data
        return tag + length(inner) + inner

    return write


WRITERS: dict[str, tuple[Any, Callable[[int], Write]]] = {
    "string": (str, _string),
    "int": (int, _int),
    "bool": (bool, _bool),
    "double": (float, _double),
    "bytes": (str, _bytes),
    "quantity": (str | int | float, _quantity),
    "intstr": (str | int, _int_or_string),
    "time": (str, _time),
    "microtime": (str, _time),
    "raw": (msgspec.Raw, _raw),
}
"""By the type in the table: the JSON type, and the encoder of the field."""
