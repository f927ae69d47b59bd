"""When a certificate is renewed."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from podfit.agent.decide.node.renewal import renew_at

BEGINS = datetime(2026, 1, 1)


@pytest.mark.parametrize(("share", "hours"), [(0.0, 70), (0.5, 80), (1.0, 90), (-3.0, 70), (7.0, 90)])
def test_nodes_renew_between_70_and_90_percent_of_the_lifetime(share: float, hours: int) -> None:
    at = renew_at(BEGINS, BEGINS + timedelta(hours=100), share)
    assert abs((at - BEGINS) - timedelta(hours=hours)) < timedelta(seconds=1)
