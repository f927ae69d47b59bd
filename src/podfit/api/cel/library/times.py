"""Timestamps and durations: parsing and formatting as in Go, and their components."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from podfit.api.cel.library.functions import Library
from podfit.api.cel.values import INT_MAX, INT_MIN, NANOS, Duration, Failed, Timestamp
from podfit.api.text.times import zone_named

LIBRARY = Library()
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 1_000_000, "s": NANOS, "m": 60 * NANOS, "h": 3600 * NANOS}
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _not_a(kind: str) -> Failed:
    return Failed(f"type conversion error from 'string' to 'google.protobuf.{kind}'")


def timestamp_from(text: str) -> Timestamp:
    found = _STAMP.fullmatch(text)
    if found is None:
        raise _not_a("Timestamp")
    *numbers, fraction, zone = found.groups()
    try:
        moment = datetime(*(int(number) for number in numbers), tzinfo=UTC)  # type: ignore[misc, arg-type]
    except ValueError:
        raise _not_a("Timestamp") from None
    offset = 0
    if zone not in "Zz":
        offset = (int(zone[1:3]) * 3600 + int(zone[4:]) * 60) * (-1 if zone[0] == "-" else 1)
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - offset
    return Timestamp.checked(seconds * NANOS + int(((fraction or "") + "0" * 9)[:9]))


def duration_from(text: str) -> Duration:
    """Parses a duration such as `1h30m`, `-1.5s` or `0`."""
    wrong = _not_a("Duration")
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    if not rest or len(rest) > 1000:
        raise wrong
    nanos, at = 0, 0
    while at < len(rest):
        found = _PART.match(rest, at)
        if found is None or not (found[1] or found[2]):
            raise wrong
        unit, fraction = _UNITS[found[3]], found[2] or ""
        nanos += int(found[1] or "0") * unit
        nanos += int(fraction[:18] or "0") * unit // 10 ** len(fraction[:18])
        at = found.end()
    nanos = -nanos if text[0] == "-" else nanos
    if not INT_MIN <= nanos <= INT_MAX:
        raise wrong
    return Duration(nanos)


def _fraction(nanos: int) -> str:
    return f".{nanos:09d}".rstrip("0") if nanos else ""


def shown_timestamp(value: Timestamp) -> str:
    seconds, nanos = divmod(value.nanos, NANOS)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{_fraction(nanos)}Z"


def shown_duration(value: Duration) -> str:
    sign, (seconds, nanos) = "-" if value.nanos < 0 else "", divmod(abs(value.nanos), NANOS)
    return f"{sign}{seconds}{_fraction(nanos)}s"


def _zone(name: str) -> Any:
    found = _OFFSET.fullmatch(name)
    if found is not None:
        minutes = int(found[2]) * 60 + int(found[3])
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    try:
        return zone_named(name)
    except Exception:
        raise Failed(f"unknown time zone {name}") from None


def _local(value: Timestamp, zone: str) -> datetime:
    moment = _EPOCH + timedelta(microseconds=value.nanos // 1000)
    return moment if not zone else moment.astimezone(_zone(zone))


_FIELDS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
    "getMilliseconds": lambda moment: moment.microsecond // 1000,
}


def _field(of: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda value, zone="": of(_local(value, zone))


def _whole(unit: int) -> Callable[[Duration], int]:
    return lambda value: (abs(value.nanos) // unit) * (-1 if value.nanos < 0 else 1)


for _name, _of in _FIELDS.items():
    LIBRARY.add(_name, f"timestamp_{_name}", "timestamp.() int", _field(_of))
    LIBRARY.add(_name, f"timestamp_{_name}_with_tz", "timestamp.(string) int", _field(_of))
for _name, _unit in (("Hours", 3600 * NANOS), ("Minutes", 60 * NANOS), ("Seconds", NANOS), ("Milliseconds", 10**6)):
    LIBRARY.add(f"get{_name}", f"duration_get{_name}", "duration.() int", _whole(_unit))
LIBRARY.add("duration", "duration_to_duration", "(duration) duration", lambda value: value)
LIBRARY.add("duration", "int64_to_duration", "(int) duration", Duration.checked)
LIBRARY.add("duration", "string_to_duration", "(string) duration", duration_from)
LIBRARY.add("timestamp", "timestamp_to_timestamp", "(timestamp) timestamp", lambda value: value)
LIBRARY.add("timestamp", "int64_to_timestamp", "(int) timestamp", lambda value: Timestamp.checked(value * NANOS))
LIBRARY.add("timestamp", "string_to_timestamp", "(string) timestamp", timestamp_from)
