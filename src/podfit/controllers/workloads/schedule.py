"""Cron schedules: when is the next time? Pure.

Five fields (minute, hour, day of month, month, day of week), names, ranges, steps, lists, `@hourly` and friends; the
day matches when either day field does, if both are restricted, as cron has always done it.
"""

from __future__ import annotations

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

    @staticmethod
    def parse(text: str, zone: str = "") -> Schedule:
        where: tzinfo = ZoneInfo(zone) if zone else UTC
        fields = _MACROS.get(text.strip(), text).split()
        if len(fields) != 5:
            raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: {text}")
        minute, hour, day, month, weekday = fields
        return Schedule(
            _field(minute, 0, 59, {}),
            _field(hour, 0, 23, {}),
            _field(day, 1, 31, {}),
            _field(month, 1, 12, _MONTHS),
            frozenset(number % 7 for number in _field(weekday, 0, 7, _DAYS)),
            day[0] in "*?",
            weekday[0] in "*?",
            where,
        )

    def next(self, after: float) -> float | None:
        """The first due time later than `after`; None when there is none within years."""
        at = datetime.fromtimestamp(after, self.zone).replace(second=0, microsecond=0) + timedelta(minutes=1)
        end = at + _HORIZON
        while at < end:
            if at.month not in self.months:
                at = (at.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not self._day_matches(at):
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at.timestamp()
        return None

    def _day_matches(self, at: datetime) -> bool:
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return day and weekday
        return day or weekday


def _field(text: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
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


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not text.isdigit():
        raise BadSchedule(f"failed to parse {text!r} as a number")
    return int(text)
