"""Parses RFC 3339 times to the format of the API server, with Go's errors for invalid ones, and finds time zones by
name."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from podfit.api.status import go_quote
from podfit.api.text.remember import remembered

_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


class BadTime(ValueError):
    """The time is invalid; the message is Go's."""


@remembered(4096)
def time_text(text: str) -> str | None:
    moment = _moment(text, LAYOUT)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}".rjust(20, "0")


@remembered(4096)
def micro_time_text(text: str) -> str | None:
    moment = _moment(text, _MICRO_LAYOUT)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}".rjust(27, "0")


def _moment(text: str, layout: str) -> datetime | None:
    """The time in UTC; None for Go's zero time, which prints as null."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        why = _why(text)
        parsed_as = f"{go_quote(text)} as {go_quote(layout)}" if why.startswith("cannot") else go_quote(text)
        raise BadTime(f"parsing time {parsed_as}: {why}")
    if layout is _MICRO_LAYOUT and (unread := _unread(found)):
        raise BadTime(f"parsing time {go_quote(text)} as {go_quote(layout)}: cannot parse {unread}")
    year, month, day, hour, minute, second = (int(found[index]) for index in range(1, 7))
    micro = int((found[7] or "0")[:6].ljust(6, "0"))
    try:
        moment = datetime(year, month, day, hour, minute, second, micro, tzinfo=UTC)
        if found[8] != "Z":
            sign = 1 if found[8][0] == "+" else -1
            moment -= sign * timedelta(hours=int(found[8][1:3]), minutes=int(found[8][4:6]))
    except (ValueError, OverflowError):
        raise BadTime(f"parsing time {go_quote(text)}: {_out_of_range(month, hour, minute, second)}") from None
    return None if moment == datetime(1, 1, 1, tzinfo=UTC) else moment


def _unread(found: re.Match[str]) -> str:
    """The text at which Go's parser stops if the seconds are not followed by exactly six digits."""
    fraction, zone = found[7], found[8]
    if fraction is None or len(fraction) < 6:
        return f'{go_quote(f".{fraction}{zone}" if fraction else zone)} as ".000000"'
    return f'{go_quote(fraction[6:] + zone)} as "Z07:00"' if len(fraction) > 6 else ""


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
    """The first element of the layout that the text does not match, for the error message."""
    at = 0
    for pattern, piece in _PIECES:
        found = re.compile(pattern, re.ASCII).match(text, at)
        if found is None:
            return f"cannot parse {go_quote(text[at:])} as {go_quote(piece)}"
        at = found.end()
    return f"extra text: {go_quote(text[at:])}"


def zone_named(name: str) -> tzinfo:
    """The time zone of this name. Raises ValueError if there is none. `zoneinfo` is imported here, because few clusters
    name a zone."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error
