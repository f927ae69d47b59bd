"""Recorded pod changes and eviction events: which of them are out-of-memory kills."""

from __future__ import annotations

from typing import Any

import pytest
from vpa_vectors import cases

from podfit.vpa.model.times import to_rfc3339
from podfit.vpa.recommender.decide.evidence.oom import ooms_between, ooms_of_eviction


@pytest.mark.parametrize("case", cases("oom-observer"), ids=lambda case: case["name"])
def test_out_of_memory_is_recognised(case: dict[str, Any]) -> None:
    found = ooms_of_eviction(case["event"]) if "event" in case else ooms_between(case["old"], case["new"])
    got = [
        {
            "container": oom.container,
            "memory": oom.memory,
            "namespace": oom.namespace,
            "pod": oom.pod,
            "timestamp": to_rfc3339(oom.instant),
        }
        for oom in found
    ]
    assert got == case["expect"]
