"""Conversion between quantities and the kernel's numbers."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.decide.resize import kernel
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.values import Limits
from podfit.api.resize.states import desired_of, effective


@pytest.mark.parametrize(
    ("milli", "shares", "quota"),
    [(0, 2, None), (1, 2, 1000), (2, 2, 1000), (10, 10, 1000), (100, 102, 10_000), (300_000, 262_144, 30_000_000)],
)
def test_milli_cpus_become_shares_and_quota(milli: int, shares: int, quota: int | None) -> None:
    assert (kernel.shares(milli), kernel.quota_us(milli)) == (shares, quota)


def test_a_pod_is_limited_only_when_all_its_containers_are() -> None:
    body = {
        "spec": {
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "8Ki"}}},
                {"name": "b", "resources": {"limits": {"memory": "8Ki"}}},
            ]
        }
    }
    assert kernel.pod_cgroup(Sized(body, desired_of(body)), "Burstable") == Limits(1024, None, 16384)


def test_a_container_without_limits_has_those_of_its_pod() -> None:
    level = {"limits": {"cpu": "1", "memory": "1Gi"}}
    own = {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    assert effective(own, level) == {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}}


@pytest.mark.parametrize(
    ("limits", "more", "size_limit", "size"),
    [
        (["64Mi"], {}, 0, 64 << 20),
        (["64Mi", "32Mi"], {}, 0, 96 << 20),
        (["64Mi", None], {}, 0, 1 << 30),
        (["64Mi", None], {"resources": {"limits": {"memory": "80Mi"}}}, 0, 80 << 20),
        (["64Mi"], {"overhead": {"memory": "6Mi"}}, 0, 70 << 20),
        (["64Mi"], {}, 8 << 20, 8 << 20),
        (["64Mi"], {}, 80 << 20, 64 << 20),
        (["4Gi"], {}, 0, 1 << 30),
        ([None], {}, 2 << 30, 1 << 30),
    ],
)
def test_a_volume_in_memory_is_no_larger_than_anything_around_it(
    limits: list[str | None], more: dict[str, Any], size_limit: int, size: int
) -> None:
    containers = [
        {"name": f"c{number}", "resources": {"limits": {"memory": item}} if item else {}}
        for number, item in enumerate(limits)
    ]
    assert kernel.memory_volume_bytes({"spec": {"containers": containers, **more}}, size_limit, 1 << 30) == size


def test_a_volume_in_memory_on_a_node_that_does_not_know_itself_has_no_size() -> None:
    assert kernel.memory_volume_bytes({"spec": {"containers": [{"name": "c"}]}}, 0, 0) == 0
