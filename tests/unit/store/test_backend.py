"""The errors of a store contain what a caller needs to continue."""

from __future__ import annotations

from podfit.store.backend import Compacted, FutureRevision, Mismatch, Record


def test_a_mismatch_has_the_current_record() -> None:
    current = Record("a", b"1", 2, 3)
    assert Mismatch(current).current is current and Mismatch(None).current is None


def test_a_revision_that_cannot_be_read_comes_with_one_that_can() -> None:
    assert "7" in str(Compacted(7)) and Compacted(7).oldest == 7
    assert "9" in str(FutureRevision(9)) and FutureRevision(9).current == 9
