"""Computes when a certificate is renewed. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

_EARLIEST, _LATEST = 0.7, 0.9


def renew_at(begins: datetime, ends: datetime, share: float) -> datetime:
    """The time of renewal, after 70 to 90 % of the lifetime; `share`, from 0 to 1, spreads the nodes of a cluster over
    that span."""
    part = _EARLIEST + (_LATEST - _EARLIEST) * min(max(share, 0.0), 1.0)
    return begins + timedelta(seconds=(ends - begins).total_seconds() * part)
