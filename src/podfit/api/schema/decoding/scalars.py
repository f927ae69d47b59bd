"""Scalars: from JSON to the form in which the API server returns them, or Go's error.

Every reader takes a parsed JSON value that is not null and returns the re-encoded one, or raises `Unreadable` (the
value's own parser failed: Go stops at once) or `WrongType` (Go records it and continues).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from podfit.api.quantity import FORMAT_WRONG, Quantity, QuantityError
from podfit.api.text.gojson import Literal
from podfit.api.text.remember import remembered
from podfit.api.text.times import BadTime, micro_time_text, time_text


class Unreadable(ValueError):
    """The parser of a value (quantity, time, …) failed; the message is final."""


class WrongType(ValueError):
    """JSON of the wrong type; `word` is Go's name for what it found, `go` for what it expected, if that is not the type
    itself."""

    def __init__(self, word: str, go: str = "") -> None:
        super().__init__(word)
        self.word, self.go = word, go


def json_word(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


def number_text(value: Any) -> str:
    return value.text if isinstance(value, Literal) else repr(value)


def read_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise WrongType(json_word(value))


def read_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise WrongType(json_word(value))


def _integer(bits: int) -> Callable[[Any], int]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def read(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        word = json_word(value)
        raise WrongType(f"number {number_text(value)}" if word == "number" else word)

    return read


def read_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongType(json_word(value))
    return value


def read_quantity(value: Any) -> str:
    return quantity_text(_quantity_source(value))


def read_resource(value: Any) -> str:
    """A quantity in a resource list: the API server rounds those up to thousandths."""
    return resource_text(_quantity_source(value))


def _quantity_source(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unreadable(FORMAT_WRONG)
    return number_text(value)


@remembered(8192)
def quantity_text(text: str) -> str:
    try:
        return Quantity.parse(text.strip('"').strip(" ")).as_written()
    except QuantityError as error:
        raise Unreadable(str(error)) from None


@remembered(8192)
def resource_text(text: str) -> str:
    try:
        return Quantity.parse(text.strip('"').strip(" ")).rounded_to_milli().as_written()
    except QuantityError as error:
        raise Unreadable(str(error)) from None


def read_int_or_string(value: Any) -> int | str:
    if isinstance(value, str):
        return value
    if type(value) is int and -(1 << 31) <= value < (1 << 31):
        return value
    word = json_word(value)
    seen = f"number {number_text(value)}" if word == "number" else word
    raise WrongType(seen, "int32")


def read_time(value: Any) -> str | None:
    return _as_time(value, time_text)


def read_micro_time(value: Any) -> str | None:
    return _as_time(value, micro_time_text)


def _as_time(value: Any, text_of: Callable[[str], str | None]) -> str | None:
    if not isinstance(value, str):
        raise WrongType(json_word(value), "string")
    try:
        return text_of(value)
    except BadTime as error:
        raise Unreadable(str(error)) from None


def read_duration(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(json_word(value), "string")
    return value


def read_bytes(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(json_word(value))
    text = value.replace("\r", "").replace("\n", "")
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError):
        raise Unreadable(f"illegal base64 data at input byte {_bad_byte(text)}") from None


def _bad_byte(text: str) -> int:
    found = re.search(r"[^A-Za-z0-9+/]", text)
    if found is None:
        return len(text) // 4 * 4
    at = found.start()
    if text[at] != "=" or at % 4 < 2:
        return at
    padding = text[at : at + 4 - at % 4]
    if at % 4 == 2 and padding != "==":
        return at if len(text) > at + 1 else len(text)
    return at + len(padding)


def read_raw(value: Any) -> Any:
    return value


READERS: dict[str, Callable[[Any], Any]] = {
    "string": read_string,
    "bool": read_bool,
    "int32": _integer(32),
    "int64": _integer(64),
    "float64": read_float,
    "Quantity": read_quantity,
    "Resource": read_resource,
    "IntOrString": read_int_or_string,
    "Time": read_time,
    "MicroTime": read_micro_time,
    "Duration": read_duration,
    "bytes": read_bytes,
    "Raw": read_raw,
}
