"""Validates the schedule and the time zone of a CronJob. Pure."""

from __future__ import annotations

import re

from podfit.api.cron import BadSchedule, Schedule, is_zone
from podfit.api.status import invalid
from podfit.apiserver.strategy.checks import Errors

_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def schedule_errors(schedule: str, zone: str | None, before: str | None, path: str, errors: Errors) -> None:
    """Errors in a schedule. `before` is the stored schedule: if it contains a time zone, the new one may, too."""
    try:
        Schedule.parse(schedule)
    except BadSchedule as error:
        errors.append(invalid(path, schedule, str(error)))
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
    if zone != "Local" and not is_zone(zone):
        errors.append(invalid(path, zone, f"unknown time zone {zone}"))
