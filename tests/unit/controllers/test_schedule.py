"""Cron schedules."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.controllers.workloads.schedule import BadSchedule, Schedule


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("*/5 * * * *", "2026-01-01T00:03:10", "2026-01-01T00:05:00"),
        ("0 3 * * *", "2026-01-01T03:00:00", "2026-01-02T03:00:00"),
        ("30 4 1 * *", "2026-01-31T00:00:00", "2026-02-01T04:30:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 13 * fri", "2026-11-01T00:00:00", "2026-11-06T00:00:00"),
        ("@hourly", "2026-05-05T05:59:59", "2026-05-05T06:00:00"),
        ("15,45 9-17/4 * jan-mar 1-5", "2026-01-03T00:00:00", "2026-01-05T09:15:00"),
        ("0 0 * * 7", "2026-11-14T12:00:00", "2026-11-15T00:00:00"),
    ],
)
def test_next_due_time_follows_cron(schedule: str, after: str, expected: str) -> None:
    assert Schedule.parse(schedule).next(at(after)) == at(expected)


@pytest.mark.parametrize(
    "text", ["", "* * * *", "61 * * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *", "* * * * * *"]
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(BadSchedule):
        Schedule.parse(text)


def test_a_day_that_never_comes_has_no_next_time() -> None:
    assert Schedule.parse("0 0 31 2 *").next(at("2026-01-01T00:00:00")) is None


def test_time_zones_are_respected() -> None:
    assert Schedule.parse("0 12 * * *", "Asia/Tokyo").next(at("2026-01-01T00:00:00")) == at("2026-01-01T03:00:00")


def test_every_counts_from_the_time_before() -> None:
    every = Schedule.parse("@every 1m30s")
    assert every.next(at("2026-01-01T00:00:00")) == at("2026-01-01T00:01:30")
    assert every.upcoming(at("2026-01-01T00:00:00"), at("2026-01-01T00:04:00")) == at("2026-01-01T00:04:30")
    for text in ("@every", "@every x", "@every 5", "@every 1m 2s"):
        with pytest.raises(BadSchedule):
            Schedule.parse(text)


def test_a_zone_in_the_text_counts() -> None:
    assert Schedule.parse("TZ=Asia/Tokyo 0 12 * * *").next(at("2026-01-01T00:00:00")) == at("2026-01-01T03:00:00")


@given(st.integers(0, 59), st.integers(0, 23), st.integers(1_600_000_000, 1_900_000_000))
def test_the_next_time_is_later_and_matches_the_fields(minute: int, hour: int, after: int) -> None:
    due = Schedule.parse(f"{minute} {hour} * * *").next(after)
    assert due is not None and after < due <= after + 86400 + 60
    found = datetime.fromtimestamp(due, UTC)
    assert (found.minute, found.hour, found.second) == (minute, hour, 0)
