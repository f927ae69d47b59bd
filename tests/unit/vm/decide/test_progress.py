"""The update in progress: repeated requests, newer ones, restarts."""

from __future__ import annotations

from podfit.vm.decide.progress import Update, begun, ended, interrupted, requested, retry_after
from podfit.vm.decide.sizes import Size

SMALL, LARGE, LARGER = Size(1, 512), Size(2, 1024), Size(4, 2048)


def test_a_repeated_request_changes_nothing() -> None:
    update = begun(requested(None, LARGE))
    assert requested(update, LARGE) is update


def test_a_newer_target_waits_for_the_running_step_and_then_takes_over() -> None:
    update = requested(begun(requested(None, LARGE)), LARGER)
    assert (update.target, update.working_on, update.running) == (LARGER, LARGE, True)
    assert ended(update, LARGE, "a problem of the old target") == Update(LARGER)


def test_an_update_is_over_when_the_guest_has_the_target() -> None:
    assert ended(begun(requested(None, LARGE)), LARGE) is None


def test_a_step_that_falls_short_is_counted_and_reports_the_reason() -> None:
    update = ended(begun(requested(None, LARGE)), SMALL, "the guest holds on to it")
    assert update == Update(LARGE, problem="the guest holds on to it", attempts=1)


def test_a_new_target_starts_without_the_problems_of_the_old_one() -> None:
    failed = Update(LARGE, problem="x", attempts=4)
    assert requested(failed, LARGER) == Update(LARGER)


def test_after_a_restart_no_step_runs_and_the_target_is_kept() -> None:
    update = begun(requested(None, LARGE))
    assert interrupted(Update.from_json(update.to_json())) == Update(LARGE)


def test_attempts_get_rarer_up_to_every_thirty_seconds() -> None:
    assert [retry_after(attempts) for attempts in (0, 1, 2, 4, 5, 99)] == [1, 2, 4, 16, 30, 30]
