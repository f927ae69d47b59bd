"""The order of admission plugins."""

from __future__ import annotations

from typing import Any

from podfit.apiserver.admission.chain import build


def test_allocations_are_checked_before_quota(cluster: Any) -> None:
    names = build(cluster).names
    assert names.index("PodResourceAllocation") < names.index("ResourceQuota")
