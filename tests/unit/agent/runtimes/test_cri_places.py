"""The paths of pods' cgroups with both drivers, as with a kubelet."""

from __future__ import annotations

import pytest

from podfit.agent.runtimes.cri.messages.cgroup_paths import CgroupPaths


@pytest.mark.parametrize(
    ("root", "qos", "cgroupfs", "systemd"),
    [
        ("/", "Guaranteed", "/kubepods/poda-b", "/kubepods.slice/kubepods-poda_b.slice"),
        (
            "/",
            "Burstable",
            "/kubepods/burstable/poda-b",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice",
        ),
        (
            "/test",
            "BestEffort",
            "/test/kubepods/besteffort/poda-b",
            "/test.slice/test-kubepods.slice/test-kubepods-besteffort.slice/test-kubepods-besteffort-poda_b.slice",
        ),
    ],
)
def test_a_pods_group_is_where_a_kubelet_makes_it(root: str, qos: str, cgroupfs: str, systemd: str) -> None:
    assert CgroupPaths(root).pod(qos, "a-b") == cgroupfs
    assert CgroupPaths(root, "systemd").pod(qos, "a-b") == systemd


def test_only_what_is_podfits_own_may_be_removed_as_a_whole() -> None:
    assert (CgroupPaths("/").own, CgroupPaths("/test").own) == ("", "/test")
