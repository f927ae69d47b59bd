"""A log of changed rows."""

from __future__ import annotations

from podfit.scheduler.decide.cluster.changes import Changes


def test_rows_that_changed_since_are_listed_once() -> None:
    changes = Changes()
    changes.add(1)
    position = changes.position
    for row in (2, 3, 2):
        changes.add(row)
    assert sorted(changes.since(position) or ()) == [2, 3]
    assert changes.since(changes.position) == []
    assert changes.since(changes.position - 1) == [2]


def test_a_log_that_no_longer_goes_back_so_far_reports_it() -> None:
    changes = Changes(keep=4)
    for row in range(10):
        changes.add(row)
    assert changes.since(0) is None
    assert changes.position == 10
    assert sorted(changes.since(8) or ()) == [8, 9]
