"""Scalars: from JSON to the form the API server answers with, or Go's words for what is wrong.

Every reader takes a parsed JSON value that is not null and returns the re-encoded one, or raises `Unreadable`
(the value's own parser refused: Go stops at once) or `WrongType` (Go notes it and reads on).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from podfit.api.quantity import FORMAT_WRONG, Quantity, QuantityError
from podfit.api.schema.golang.gojson import Literal
from podfit.api.status import go_quote
from podfit.api.text.remember import remembered


class Unreadable(ValueError):
    """A value that parses itself (quantity, time, …) refused; the message is final."""


class WrongType(ValueError):
    """JSON of the wrong type; `word` is how Go names what it saw, `go` what it wanted where that is not the type
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


_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


def read_time(value: Any) -> str | None:
    return time_text(_time_source(value))


def read_micro_time(value: Any) -> str | None:
    return micro_time_text(_time_source(value))


def _time_source(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise WrongType(json_word(value), "string")


@remembered(4096)
def time_text(text: str) -> str | None:
    moment = _moment(text, LAYOUT)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


@remembered(4096)
def micro_time_text(text: str) -> str | None:
    moment = _moment(text, _MICRO_LAYOUT)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}".rjust(27, "0")


def _moment(text: str, layout: str) -> datetime | None:
    """The moment in UTC; None for Go's zero time, which prints as null."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise Unreadable(f"parsing time {go_quote(text)} as {go_quote(layout)}: {_why(text)}")
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    micro = int((found[7] or "0")[:6].ljust(6, "0"))
    try:
        moment = datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
        if found[8] != "Z":
            sign = 1 if found[8][0] == "+" else -1
            moment -= sign * timedelta(hours=int(found[8][1:3]), minutes=int(found[8][4:6]))
    except (ValueError, OverflowError):
        raise Unreadable(f"parsing time {go_quote(text)}: {_out_of_range(month, hour, minute, second)}") from None
    return None if moment == datetime(1, 1, 1, tzinfo=UTC) else moment


def _out_of_range(month: int, hour: int, minute: int, second: int) -> str:
    for name, bad in (("month", not 1 <= month <= 12), ("hour", hour > 23), ("minute", minute > 59)):
        if bad:
            return f"{name} out of range"
    return "second out of range" if second > 59 else "day out of range"


_PIECES = (
    (r"\d{4}", "2006"), (r"-", "-"), (r"\d\d", "01"), (r"-", "-"), (r"\d\d", "02"), (r"T", "T"), (r"\d\d", "15"),
    (r":", ":"), (r"\d\d", "04"), (r":", ":"), (r"\d\d", "05"), (r"(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", "Z07:00"),
)  # fmt: skip


def _why(text: str) -> str:
    """The first piece of the layout that the text does not have."""
    at = 0
    for pattern, piece in _PIECES:
        found = re.compile(pattern, re.ASCII).match(text, at)
        if found is None:
            return f"cannot parse {go_quote(text[at:])} as {go_quote(piece)}"
        at = found.end()
    return f"extra text: {go_quote(text[at:])}"


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
    if text[found.start()] == "=" and found.start() % 4 >= 2 and re.fullmatch(r"={1,2}", text[found.start() :]):
        return len(text)
    return found.start()


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
