"""Cron schedules: validation with the messages of the library that Kubernetes uses, and the next due time. Pure.

Five fields (minute, hour, day of month, month, day of week), names, ranges, steps, lists, `@hourly` and friends,
`@every 90s`. If both day fields are restricted, the day matches when either does, as always in cron. A field is
restricted unless it has a star without a step. On changes of the clock, an hour that is skipped has no due times, and
one that is repeated has them twice.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from podfit.api.status import go_quote
from podfit.api.text.times import zone_named

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
Names = dict[str, int]
_FIELDS: tuple[tuple[int, int, Names], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_EVERY = "@every "
_ZONES = ("TZ=", "CRON_TZ=")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"([0-9]*(?:\.[0-9]*)?)([^0-9.]*)")
_LONGEST_S = 2**63 / 1e9
_DIGITS = 18
"""For numbers that fit into 64 bits in any case."""
_HORIZON = timedelta(days=366 * 5)
_NONE: frozenset[int] = frozenset()


class BadSchedule(ValueError):
    """The schedule is invalid; the message is Kubernetes'."""


@dataclass(frozen=True, slots=True)
class Schedule:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool
    zone: tzinfo
    every_s: float = 0.0
    """For `@every`: due this long after the previous time, independent of the clock."""

    @staticmethod
    def parse(text: str, zone: str = "") -> Schedule:
        """Parses a schedule. `zone` applies if the text does not name one. Raises BadSchedule."""
        if text.startswith(_ZONES):
            named, _, text = text.partition(" ")
            zone, text = named.partition("=")[2], text.strip()
        where = _zone(zone)
        if text.startswith(_EVERY):
            return Schedule(_NONE, _NONE, _NONE, _NONE, _NONE, False, False, where, _every(text))
        if text.startswith("@"):
            if text not in _MACROS:
                raise BadSchedule(f"unrecognized descriptor: {text}")
            text = _MACROS[text]
        fields = text.split()
        if len(fields) != len(_FIELDS):
            raise BadSchedule(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
        found = (_field(field, *bounds) for field, bounds in zip(fields, _FIELDS, strict=True))
        minutes, hours, days, months, weekdays = found
        return Schedule(minutes, hours, days, months, weekdays, _is_any(fields[2]), _is_any(fields[4]), where)

    def next(self, after: float) -> float | None:
        """The first due time later than `after`; None if there is none within years."""
        if self.every_s:
            return math.floor(after) + self.every_s
        at = datetime.fromtimestamp(after // 60 * 60 + 60, UTC)
        end = at + _HORIZON
        while at < end:
            here = at.astimezone(self.zone)
            if here.month not in self.months:
                at = self._midnight(here.replace(day=1) + timedelta(days=32), day=1)
            elif not self._day_matches(here):
                at = self._midnight(here + timedelta(days=1))
            elif here.hour not in self.hours:
                at += timedelta(hours=1, minutes=-here.minute)
            elif here.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at.timestamp()
        return None

    def upcoming(self, since: float, now: float) -> float | None:
        """The first due time later than `now`; intervals are counted from `since`."""
        if not self.every_s:
            return self.next(now)
        return since + (math.floor((now - since) / self.every_s) + 1) * self.every_s

    def _midnight(self, day_of: datetime, day: int | None = None) -> datetime:
        """The start of the day in that zone: midnight, or the end of a skipped hour."""
        began = datetime(day_of.year, day_of.month, day or day_of.day, tzinfo=self.zone)
        return began.astimezone(UTC)

    def _day_matches(self, at: datetime) -> bool:
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return day and weekday
        return day or weekday


def is_zone(name: str) -> bool:
    try:
        zone_named(name)
    except ValueError:
        return False
    return True


def _zone(name: str) -> tzinfo:
    if name and not is_zone(name):
        raise BadSchedule(f"provided bad location {name}: unknown time zone {name}")
    return zone_named(name) if name else UTC


def _is_any(text: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in text.split(","))


def _field(text: str, low: int, high: int, names: Names) -> frozenset[int]:
    return frozenset().union(*(_range(part, low, high, names) for part in text.split(",") if part))


def _range(expression: str, low: int, high: int, names: Names) -> range:
    span, *steps = expression.split("/")
    first, *others = span.split("-")
    if first in ("*", "?"):
        start, end = low, high
    else:
        start = _number(first, names)
        if len(others) > 1:
            raise BadSchedule(f"too many hyphens: {expression}")
        end = _number(others[0], names) if others else start
    if len(steps) > 1:
        raise BadSchedule(f"too many slashes: {expression}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not others:
        end = high
    if start < low:
        raise BadSchedule(f"beginning of range ({start}) below minimum ({low}): {expression}")
    if end > high:
        raise BadSchedule(f"end of range ({end}) above maximum ({high}): {expression}")
    if start > end:
        raise BadSchedule(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise BadSchedule(f"step of range should be a positive number: {expression}")
    return range(start, end + 1, step)


def _number(text: str, names: Names) -> int:
    if text.lower() in names:
        return names[text.lower()]
    match = re.fullmatch(r"[+-]?0*([0-9]+)", text)
    if match is None or len(match[1]) > _DIGITS:
        why = "value out of range" if match else "invalid syntax"
        raise BadSchedule(f"failed to parse int from {text}: strconv.Atoi: parsing {go_quote(text)}: {why}")
    number = int(text)
    if number < 0:
        raise BadSchedule(f"negative number ({number}) not allowed: {text}")
    return number


def _every(text: str) -> float:
    """The interval of `@every` in whole seconds, at least one."""
    try:
        return float(max(1, int(_go_duration(text.removeprefix(_EVERY)))))
    except ValueError as error:
        raise BadSchedule(f"failed to parse duration {text}: {error}") from None


def _go_duration(text: str) -> float:
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    seconds = 0.0
    if not rest:
        raise ValueError(f"time: invalid duration {go_quote(text)}")
    while rest:
        part = _DURATION_PART.match(rest)
        if part is None or part[1] in ("", "."):
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        if not part[2]:
            raise ValueError(f"time: missing unit in duration {go_quote(text)}")
        if part[2] not in _UNITS:
            raise ValueError(f"time: unknown unit {go_quote(part[2])} in duration {go_quote(text)}")
        seconds += float(part[1]) * _UNITS[part[2]]
        if seconds > _LONGEST_S:
            raise ValueError(f"time: invalid duration {go_quote(text)}")
        rest = rest[part.end() :]
    return sign * seconds
