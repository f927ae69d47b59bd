"""Cron schedules."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.cron import BadSchedule, Schedule
from podfit.controllers.workloads.jobs.cronjob import due_text


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
        ("0 0 * * 0", "2026-11-14T12:00:00", "2026-11-15T00:00:00"),
        # A star with a step restricts: either day field may match. Without a step the other field decides alone.
        ("0 0 */10 * mon", "2026-11-03T00:00:00", "2026-11-09T00:00:00"),
        ("0 0 */10 * mon", "2026-11-09T00:00:00", "2026-11-11T00:00:00"),
        ("0 0 */1 * mon", "2026-11-10T00:00:00", "2026-11-16T00:00:00"),
        ("0 0 5,* * mon", "2026-11-03T00:00:00", "2026-11-09T00:00:00"),
        ("5,,+7 * * * *", "2026-01-01T00:05:00", "2026-01-01T00:07:00"),
    ],
)
def test_next_due_time_follows_cron(schedule: str, after: str, expected: str) -> None:
    assert Schedule.parse(schedule).next(at(after)) == at(expected)


@pytest.mark.parametrize(
    "text", ["", "* * * *", "61 * * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *", "* * * * * *", "* * * * 7"]
)
def test_an_invalid_schedule_is_rejected(text: str) -> None:
    with pytest.raises(BadSchedule):
        Schedule.parse(text)


def test_a_day_that_never_comes_has_no_next_time() -> None:
    assert Schedule.parse("0 0 31 2 *").next(at("2026-01-01T00:00:00")) is None


def test_time_zones_are_respected() -> None:
    assert Schedule.parse("0 12 * * *", "Asia/Tokyo").next(at("2026-01-01T00:00:00")) == at("2026-01-01T03:00:00")


@pytest.mark.parametrize(
    ("schedule", "after", "due"),
    [
        # In New York the hour from two is left out on 8 March 2026, and the one from one comes twice on 1 November.
        ("30 2 * * *", "2026-03-08T05:00:00", ["2026-03-09T06:30:00"]),
        ("30 1 * * *", "2026-11-01T04:00:00", ["2026-11-01T05:30:00", "2026-11-01T06:30:00", "2026-11-02T06:30:00"]),
        ("0 */2 * * *", "2026-03-08T04:30:00", ["2026-03-08T05:00:00", "2026-03-08T08:00:00"]),
        ("0 0 * * *", "2026-11-01T04:00:00", ["2026-11-02T05:00:00"]),
    ],
)
def test_elapsed_time_is_independent_of_clock_changes(schedule: str, after: str, due: list[str]) -> None:
    found, now = [], at(after)
    for _ in due:
        now = Schedule.parse(schedule, "America/New_York").next(now) or 0.0
        found.append(now)
    assert found == [at(item) for item in due]


def test_a_day_may_begin_after_midnight() -> None:
    # In Beirut clocks go from midnight to one o'clock: 29 March 2026 begins at one, which is 22:00 in UTC.
    assert Schedule.parse("0 * 29 3 *", "Asia/Beirut").next(at("2026-03-01T00:00:00")) == at("2026-03-28T22:00:00")


@pytest.mark.parametrize("text", ["0", "-5s", "+0.5s", "500ms"])
def test_every_is_a_second_at_least(text: str) -> None:
    assert Schedule.parse(f"@every {text}").every_s == 1.0


def test_every_counts_from_the_time_before() -> None:
    every = Schedule.parse("@every 1m30s")
    assert every.next(at("2026-01-01T00:00:00")) == at("2026-01-01T00:01:30")
    assert every.upcoming(at("2026-01-01T00:00:00"), at("2026-01-01T00:04:00")) == at("2026-01-01T00:04:30")
    for text in ("@every", "@every x", "@every 5", "@every 1m 2s"):
        with pytest.raises(BadSchedule):
            Schedule.parse(text)


def test_the_due_time_is_reported_in_the_time_zone_of_the_schedule() -> None:
    due = at("2026-01-01T03:00:00")
    assert due_text(due, "Asia/Tokyo") == "2026-01-01T12:00:00+09:00"
    assert due_text(due, "America/New_York") == "2025-12-31T22:00:00-05:00"
    assert due_text(due, "Europe/London") == due_text(due, "") == "2026-01-01T03:00:00Z"


def test_a_zone_in_the_text_counts() -> None:
    assert Schedule.parse("TZ=Asia/Tokyo 0 12 * * *").next(at("2026-01-01T00:00:00")) == at("2026-01-01T03:00:00")


@given(st.integers(0, 59), st.integers(0, 23), st.integers(1_600_000_000, 1_900_000_000))
def test_the_next_time_is_later_and_matches_the_fields(minute: int, hour: int, after: int) -> None:
    due = Schedule.parse(f"{minute} {hour} * * *").next(after)
    assert due is not None and after < due <= after + 86400 + 60
    found = datetime.fromtimestamp(due, UTC)
    assert (found.minute, found.hour, found.second) == (minute, hour, 0)


@pytest.mark.parametrize("schedule", ["1" * 5000 + " * * * *", "@every " + "1" * 5000 + "h", "@every -", "@every "])
def test_numbers_that_no_computer_holds_are_no_schedule(schedule: str) -> None:
    with pytest.raises(BadSchedule):
        Schedule.parse(schedule)


@given(st.text(alphabet="*?/-,0123456789+@everyhmsTZ= jan", max_size=40))
def test_any_text_is_a_schedule_or_a_bad_one(schedule: str) -> None:
    try:
        Schedule.parse(schedule)
    except BadSchedule as error:
        assert str(error)
