"""Maintenance windows: the times of a week at which pods may be changed. Pure.

`Mon-Fri 22:00-04:00; Sun 00:00-24:00`: days (one, a list, a range, or `*`) and a time of day in UTC. A window that ends
before it begins continues into the next day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TIME = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")
_DAY_MINUTES = 24 * 60


class BadWindow(ValueError):
    """The text is not a valid window; the message describes the format."""


@dataclass(frozen=True, slots=True)
class Window:
    days: frozenset[int]
    start: int
    """The start in minutes since midnight."""
    end: int

    def holds(self, now: float) -> bool:
        moment = datetime.fromtimestamp(now, UTC)
        day, minute = moment.weekday(), moment.hour * 60 + moment.minute
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        since_yesterday = (day - 1) % 7 in self.days and minute < self.end
        return since_yesterday or (day in self.days and minute >= self.start)


def windows(text: str) -> tuple[Window, ...]:
    """Parses windows separated by semicolons. Raises BadWindow."""
    return tuple(_window(part.strip()) for part in text.split(";") if part.strip())


def open_now(text: str, now: float) -> bool:
    """Whether a window is open now; without any window the answer is always yes. Raises BadWindow."""
    found = windows(text)
    return not found or any(window.holds(now) for window in found)


def _window(text: str) -> Window:
    days, _, time = text.rpartition(" ")
    found = _TIME.fullmatch(time)
    if found is None:
        raise BadWindow(f"{text!r} is not a window, such as Mon-Fri 22:00-04:00")
    start, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    if max(start, end) > _DAY_MINUTES or int(found[2]) > 59 or int(found[4]) > 59 or start == end:
        raise BadWindow(f"{time!r} is not a time of day")
    return Window(_days(days.strip() or "*"), start, end)


def _days(text: str) -> frozenset[int]:
    if text == "*":
        return frozenset(range(7))
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            start = DAYS.index(first.strip().capitalize())
            end = DAYS.index(last.strip().capitalize()) if dash else start
        except ValueError:
            raise BadWindow(f"{part!r} is not a day of the week ({', '.join(DAYS)})") from None
        found.update((start + number) % 7 for number in range((end - start) % 7 + 1))
    return frozenset(found)
