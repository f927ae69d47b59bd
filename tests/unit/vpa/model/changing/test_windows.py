"""Maintenance windows: when running pods may be changed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from podfit.vpa.model.changing.windows import BadWindow, open_now


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("windows", "when", "holds"),
    [
        ("", "2024-01-01T12:00", True),
        ("Mon 10:00-14:00", "2024-01-01T12:00", True),
        ("Mon 10:00-14:00", "2024-01-01T14:00", False),
        ("Mon 10:00-14:00", "2024-01-02T12:00", False),
        ("Mon-Fri 22:00-04:00", "2024-01-06T03:59", True),
        ("Mon-Fri 22:00-04:00", "2024-01-06T22:30", False),
        ("Sat-Mon 00:00-24:00", "2024-01-07T05:00", True),
        ("mon,wed 01:00-02:00; * 05:00-06:00", "2024-01-02T05:30", True),
    ],
)
def test_maintenance_windows(windows: str, when: str, holds: bool) -> None:
    assert open_now(windows, at(when)) is holds


@pytest.mark.parametrize("text", ["Mon", "Xyz 10:00-11:00", "Mon 25:00-26:00", "Mon 10:00-10:00", "10-11"])
def test_an_invalid_window_is_rejected(text: str) -> None:
    with pytest.raises(BadWindow):
        open_now(text, 0.0)
