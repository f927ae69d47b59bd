"""What is wrong with a cron schedule or a time zone, in the words of the libraries Kubernetes reads them with. Pure.

When a schedule is due is the business of the controller; here only the text is looked at.
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from podfit.api.status import go_quote, invalid
from podfit.apiserver.strategy.checks import Errors

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = frozenset(("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"))
_EVERY = "@every "
_UNITS = ("ns", "us", "µs", "μs", "ms", "s", "m", "h")
_duration_part = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")
_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


class _Wrong(Exception):
    """The complaint is its text."""


def schedule_errors(schedule: str, zone: str | None, before: str | None, path: str, errors: Errors) -> None:
    """`before` is the schedule an update replaces: one that named a zone in its text may go on doing so."""
    complaint = _complaint(schedule)
    if complaint:
        errors.append(invalid(path, schedule, complaint))
    if "TZ" not in schedule:
        return
    if before is None or "TZ" not in before:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid(path, schedule, detail))
    elif zone is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.append(invalid(path, schedule, detail))


def zone_errors(zone: str | None, path: str, errors: Errors) -> None:
    if zone is None:
        return
    if not zone:
        errors.append(invalid(path, zone, "timeZone must be nil or non-empty string"))
        return
    parts = zone.split("/")
    if any(part in (".", "..") or part.startswith("-") or not _zone_part.fullmatch(part) for part in parts):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))
        return
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, zone, detail))
    if zone != "Local" and not _known(zone):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))


def _known(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _complaint(schedule: str) -> str:
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, _, text = text.partition(" ")
        where = name.partition("=")[2]
        if where and not _known(where):
            return f"provided bad location {where}: unknown time zone {where}"
        text = text.strip()
    if text.startswith("@"):
        return _descriptor(text)
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for field, bounds in zip(fields, _FIELDS, strict=True):
            for part in filter(None, field.split(",")):
                _range(part, *bounds)
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _descriptor(text: str) -> str:
    if text in _DESCRIPTORS:
        return ""
    if not text.startswith(_EVERY):
        return f"unrecognized descriptor: {text}"
    complaint = _duration(text.removeprefix(_EVERY))
    return f"failed to parse duration {text}: {complaint}" if complaint else ""


def _duration(text: str) -> str:
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return ""
    if not rest:
        return f"time: invalid duration {go_quote(text)}"
    while rest:
        part = _duration_part.match(rest)
        if part is None or not (part[1] or (part[2] or ".") != "."):
            return f"time: invalid duration {go_quote(text)}"
        if not part[3]:
            return f"time: missing unit in duration {go_quote(text)}"
        if part[3] not in _UNITS:
            return f"time: unknown unit {go_quote(part[3])} in duration {go_quote(text)}"
        rest = rest[part.end() :]
    return ""


def _range(expression: str, low: int, high: int, names: dict[str, int]) -> None:
    span, *steps = expression.split("/")
    first, *others = span.split("-")
    if first in ("*", "?"):
        start, end = low, high
    else:
        start = _number(first, names)
        if len(others) > 1:
            raise _Wrong(f"too many hyphens: {expression}")
        end = _number(others[0], names) if others else start
    if len(steps) > 1:
        raise _Wrong(f"too many slashes: {expression}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not others:
        end = high
    if start < low:
        raise _Wrong(f"beginning of range ({start}) below minimum ({low}): {expression}")
    if end > high:
        raise _Wrong(f"end of range ({end}) above maximum ({high}): {expression}")
    if start > end:
        raise _Wrong(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise _Wrong(f"step of range should be a positive number: {expression}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise _Wrong(f"failed to parse int from {text}: strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    number = int(text)
    if number < 0:
        raise _Wrong(f"negative number ({number}) not allowed: {text}")
    return number
