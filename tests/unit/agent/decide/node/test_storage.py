"""Disk usage of pods, and which pods exceed their limits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.decide.node import eviction
from podfit.agent.decide.node.eviction import INODES, Consumer
from podfit.agent.decide.node.pressure import CrossedThreshold
from podfit.agent.decide.node.storage import STORAGE, DiskUse, is_limited, over_limit
from podfit.agent.decide.node.thresholds import Threshold
from podfit.agent.node.disk_usage import measure

MI = 1 << 20


def pod(limits: dict[str, str], volumes: dict[str, str | None] | None = None) -> dict[str, Any]:
    containers = [{"name": name, "resources": {"limits": {STORAGE: text}}} for name, text in limits.items()]
    made = [{"name": name, "emptyDir": {"sizeLimit": text} if text else {}} for name, text in (volumes or {}).items()]
    return {"metadata": {"name": "p"}, "spec": {"containers": [*containers, {"name": "free"}], "volumes": made}}


def test_volumes_are_compared_first_then_the_pod_then_its_containers() -> None:
    limited = pod({"a": "1Mi", "b": "3Mi"}, {"v": "2Mi", "w": None})
    assert over_limit(limited, DiskUse({"a": MI}, {"v": 2 * MI, "w": MI})) == ""
    assert over_limit(limited, DiskUse({"a": 9 * MI}, {"v": 2 * MI + 1})).startswith('Usage of EmptyDir volume "v"')
    assert over_limit(limited, DiskUse({"a": MI}, {"w": 3 * MI + 1})).endswith("total limit of containers 4Mi. ")
    assert over_limit(limited, DiskUse({"a": MI + 1})) == (
        'Container a exceeded its local ephemeral storage limit "1Mi". '
    )


@given(st.dictionaries(st.sampled_from(["free", "other"]), st.integers(0, 1 << 50)), st.integers(0, 1 << 50))
def test_a_pod_without_limits_may_use_any_amount(containers: dict[str, int], volume: int) -> None:
    unlimited = pod({}, {"w": None})
    assert not is_limited(unlimited)
    assert over_limit(unlimited, DiskUse(containers, {"w": volume})) == ""


@given(st.integers(0, 4 * MI), st.integers(0, 4 * MI), st.integers(0, 4 * MI))
def test_a_pod_is_over_its_limit_exactly_if_something_of_it_is(a: int, free: int, volume: int) -> None:
    limited = pod({"a": "1Mi"}, {"v": "2Mi"})
    over = a > MI or volume > 2 * MI or a + free + volume > MI
    assert bool(over_limit(limited, DiskUse({"a": a, "free": free}, {"v": volume}))) == over


def test_the_largest_consumer_of_disk_beyond_its_request_goes_first() -> None:
    asked = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": {}}]}}
    large = {"requests": {STORAGE: "100Mi"}}
    entitled = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": large}]}}
    chosen = eviction.victim(
        [
            Consumer("entitled", entitled, 90 * MI, resource=STORAGE),
            Consumer("small", asked, 2 * MI, resource=STORAGE),
            Consumer("larger", asked, 3 * MI, {"c": MI}, STORAGE),
        ]
    )
    assert chosen is not None and chosen.uid == "larger"
    met = CrossedThreshold(Threshold("nodefs.available", share=0.1), 10 * MI, MI)
    assert eviction.message(met, chosen) == (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Mi, available: 1Mi. "
        "Container c was using 1Mi, request is 0, has larger consumption of ephemeral-storage. "
    )


def test_a_shortage_of_inodes_is_counted_in_files() -> None:
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    met = CrossedThreshold(Threshold("nodefs.inodesFree", quantity=5000), 5000, 12)
    assert eviction.message(met, Consumer("u", body, 70_000, resource=INODES)) == (
        "The node was low on resource: inodes. Threshold quantity: 5000, available: 12. "
    )


def test_links_are_counted_once_and_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "measured"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "file").write_bytes(bytes(MI))
    os.link(folder / "deep" / "er" / "file", folder / "again")
    (tmp_path / "outside").write_bytes(bytes(8 * MI))
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder)
    size, inodes = measure(folder)
    assert MI <= size < 2 * MI and inodes == 6
    assert measure(tmp_path / "none") == (0, 0)


def test_a_tree_too_deep_to_be_measured_is_not_an_empty_one(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=descriptor)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)
    with pytest.raises(OSError, match="too long"):
        measure(tmp_path)
