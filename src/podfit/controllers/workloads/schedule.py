"""Cron schedules: when is the next time? Pure.

Five fields (minute, hour, day of month, month, day of week), names, ranges, steps, lists, `@hourly` and friends,
`@every 90s`; the day matches when either day field does, if both are restricted, as cron has always done it. A field
is restricted unless it has a star without a step. Time goes on through changes of the clock: an hour that is left out
has no due times, one that comes twice has them twice.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_INTEGER = re.compile(r"\+?[0-9]+")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_HORIZON = timedelta(days=366 * 5)


class BadSchedule(ValueError):
    """The text is no schedule."""


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
    """For `@every`: due so long after the time before, whatever the clock says."""

    @staticmethod
    def parse(text: str, zone: str = "") -> Schedule:
        if text.startswith(("TZ=", "CRON_TZ=")):
            named, _, text = text.partition(" ")
            zone = named.partition("=")[2]
        where: tzinfo = ZoneInfo(zone) if zone else UTC
        if text.startswith("@every "):
            none: frozenset[int] = frozenset()
            return Schedule(none, none, none, none, none, False, False, where, _duration_s(text[7:]))
        fields = _MACROS.get(text.strip(), text).split()
        if len(fields) != 5:
            raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
        minute, hour, day, month, weekday = fields
        return Schedule(
            _field(minute, 0, 59, {}),
            _field(hour, 0, 23, {}),
            _field(day, 1, 31, {}),
            _field(month, 1, 12, _MONTHS),
            _field(weekday, 0, 6, _DAYS),
            _is_any(day),
            _is_any(weekday),
            where,
        )

    def next(self, after: float) -> float | None:
        """The first due time later than `after`; None when there is none within years."""
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

    def _midnight(self, day_of: datetime, day: int | None = None) -> datetime:
        """When the day began, there: at midnight, or right after an hour that was left out."""
        began = datetime(day_of.year, day_of.month, day or day_of.day, tzinfo=self.zone)
        return began.astimezone(UTC)

    def upcoming(self, since: float, now: float) -> float | None:
        """The first due time later than `now`, counted from `since` where times are counted."""
        if not self.every_s:
            return self.next(now)
        return since + (math.floor((now - since) / self.every_s) + 1) * self.every_s

    def _day_matches(self, at: datetime) -> bool:
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return day and weekday
        return day or weekday


def _is_any(text: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in text.split(","))


def _field(text: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            start, end = low, high
        else:
            start = _number(first, names)
            end = _number(last, names) if dash else (high if slash else start)
        width = _number(step, {}) if slash else 1
        if not (low <= start <= end <= high) or width < 1:
            raise BadSchedule(f"{part!r} is out of range {low}-{high}")
        found.update(range(start, end + 1, width))
    return frozenset(found)


def _duration_s(text: str) -> float:
    """Go's notation; whole seconds, at least one."""
    sign, bare = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    parts = _DURATION.findall(bare)
    if bare != "0" and (not parts or "".join(number + unit for number, unit in parts) != bare):
        raise BadSchedule(f"failed to parse duration @every {text}")
    return float(max(1, sign * int(sum(float(number) * _UNITS[unit] for number, unit in parts))))


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not _INTEGER.fullmatch(text):
        raise BadSchedule(f"failed to parse {text!r} as a number")
    return int(text)
