"""Certificates are renewed within their lifetime, and not all at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.decide.node.renewal import renew_at

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
lifetimes = st.integers(1, 400 * 24 * 3600).map(lambda seconds: timedelta(seconds=seconds))
shares = st.floats(0, 1)


@given(lifetimes, shares)
def test_a_certificate_is_renewed_in_the_last_third_of_its_life(lifetime: timedelta, share: float) -> None:
    due = renew_at(BEGIN, BEGIN + lifetime, share)
    assert BEGIN + 0.69 * lifetime <= due <= BEGIN + 0.91 * lifetime


@given(lifetimes, shares, shares)
def test_a_larger_share_is_never_earlier(lifetime: timedelta, one: float, other: float) -> None:
    first, last = sorted((one, other))
    assert renew_at(BEGIN, BEGIN + lifetime, first) <= renew_at(BEGIN, BEGIN + lifetime, last)
