"""Each prerequisite that `podfit doctor` reports as missing is really missing in its test."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from email.utils import formatdate
from importlib import metadata
from pathlib import Path

import pytest

from podfit.cli.checks import Finding, cluster, machine, network, storage, tried
from podfit.client.kubeconfig import Access

DEPENDENCIES = {
    re.split("[ ><=;[]", text)[0].lower() for text in metadata.requires("podfit") or () if "extra ==" not in text
}
STOPPED = (
    "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
    "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]\n"
)


def test_an_old_python_is_named() -> None:
    assert machine.python_version((3, 9, 2)).level == "fail"
    assert machine.python_version((3, 11, 0)).level == "ok"


def test_a_missing_library_is_named() -> None:
    found = machine.libraries(("yaml", "no_such_library_here"))
    assert found.level == "fail" and "no_such_library_here" in found.found and found.help


def test_libraries_that_podfit_needs_are_those_it_depends_on() -> None:
    for name in machine.NEEDED:
        packages = metadata.packages_distributions()[name]
        assert any(re.sub("[-_.]+", "-", package).lower() in DEPENDENCIES for package in packages), name


def test_other_systems_and_old_kernels_are_named() -> None:
    assert machine.kernel("Darwin", "23.1").level == "fail"
    assert machine.kernel("Linux", "4.19.0-21").level == "warn"
    assert machine.kernel("Linux", "6.1.0-18-amd64").level == "ok"


def test_a_port_in_use_is_named() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        found = machine.port("127.0.0.1", taken.getsockname()[1])
    assert found.level == "warn" and "--listen" in found.help


def test_swap_few_files_and_few_watches_are_named(tmp_path: Path) -> None:
    assert machine.swap("Filename Type\n/dev/sda2 partition 1 0 -2\n").level == "warn"
    assert machine.swap("Filename Type\n").level == "ok"
    assert machine.open_files(10**9).level == "warn"
    (tmp_path / "n").write_text("3\n")
    assert machine.inotify(64, tmp_path / "n").level == "warn"
    assert machine.inotify(64, tmp_path / "missing").level == "warn"


def test_a_missing_kubectl_is_not_a_failure() -> None:
    assert machine.kubectl("no-such-kubectl").level == "warn"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert storage.writable(tmp_path / "new" / "deep").level == "ok"
    assert storage.writable(blocked).level == "fail"


def test_a_check_that_fails_itself_is_a_finding() -> None:
    def broken() -> Finding:
        raise PermissionError(13, "Permission denied", "/var/private/x")

    found = tried("disk", broken)
    assert (found.name, found.level) == ("disk", "fail") and "Permission denied" in found.found


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    assert storage.space(tmp_path, least=1 << 60).level == "fail"
    assert storage.space(tmp_path, least=1).level == "ok"


def test_file_systems_that_lose_data_are_named(tmp_path: Path) -> None:
    mounts = f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\n"
    assert storage.file_system(tmp_path, mounts).level == "fail"
    assert storage.file_system(tmp_path, f"none {tmp_path} tmpfs rw 0 0\n").level == "warn"
    assert storage.file_system(tmp_path, "/dev/sda / ext4 rw 0 0\n").level == "ok"


def test_sqlite_is_tried_for_real(tmp_path: Path) -> None:
    assert storage.sqlite(tmp_path).level == "ok"
    assert storage.sqlite(tmp_path, (3, 30, 0)).level == "fail"
    assert list(tmp_path.iterdir()) == []


def test_slow_syncs_are_named(tmp_path: Path) -> None:
    assert storage.fsync(tmp_path, slow_s=-1.0).level == "warn"


def test_keys_that_others_can_read_are_named(tmp_path: Path) -> None:
    key = tmp_path / "ca.key"
    key.write_text("secret")
    key.chmod(0o644)
    assert storage.keys(tmp_path).level == "fail"
    key.chmod(0o600)
    assert storage.keys(tmp_path).level == "ok"


def test_a_cluster_without_resize_is_named() -> None:
    assert cluster.server_version({"major": "1", "minor": "29+", "gitVersion": "v1.29.1"}).level == "fail"
    assert cluster.server_version({"major": "1", "minor": "33", "gitVersion": "v1.33.0"}).level == "ok"


def test_a_clock_that_is_off_is_named() -> None:
    assert cluster.skew(formatdate(time.time() - 600, usegmt=True)).level == "warn"
    assert cluster.skew(formatdate(time.time(), usegmt=True)).level == "ok"


async def test_a_cluster_that_was_never_started_is_not_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    found = [check async for check in cluster.cluster_checks("", "", tmp_path / "data")]
    assert [(item.name, item.level) for item in found] == [("cluster", "ok")]
    assert f"writes {tmp_path}/data/admin.kubeconfig" in found[0].found


async def test_a_cluster_of_the_data_directory_that_is_stopped_is_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (tmp_path / "admin.kubeconfig").write_text(STOPPED)
    found = [check async for check in cluster.cluster_checks("", "", tmp_path)]
    assert [(item.name, item.level) for item in found] == [("kubeconfig", "ok"), ("API server", "warn")]
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "admin.kubeconfig"))
    found = [check async for check in cluster.cluster_checks("", "", tmp_path / "other")]
    assert found[-1].level == "fail"


async def test_a_missing_kubeconfig_and_a_silent_server_are_named(tmp_path: Path) -> None:
    found = [check async for check in cluster.all_cluster_checks(str(tmp_path / "none"), "")]
    assert [item.level for item in found] == ["fail"]
    file = tmp_path / "config"
    file.write_text(STOPPED)
    found = [check async for check in cluster.all_cluster_checks(str(file), "")]
    assert [(item.name, item.level) for item in found] == [("kubeconfig", "ok"), ("API server", "fail")]


def test_without_a_client_certificate_nothing_expires() -> None:
    assert cluster.certificate(Access("https://x")) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_test_cgroup_leaves_nothing_behind() -> None:
    name = f"podfit-doctor-{os.getpid()}"
    machine.cgroups()
    # Unlike a glob, a walk tolerates cgroups of other programs that vanish during it.
    assert not [path for path, _, _ in os.walk("/sys/fs/cgroup") if path.endswith(name)]


def test_a_cni_configuration_that_pods_would_wait_for_is_named(tmp_path: Path) -> None:
    file = tmp_path / "10-pods.conflist"
    file.write_text('{"name": "pods", "cniVersion": "1.0.0"}')
    found = network.pod_network(tmp_path, [tmp_path])
    assert found.level == "fail" and "10-pods.conflist: has no plugins" in found.found
    file.write_text('{"name": "pods", "cniVersion": "1.0.0", "plugins": [{"type": "ptp", "ipam": {"type": "ours"}}]}')
    (tmp_path / "ptp").write_text("#!/bin/sh\n")
    (tmp_path / "ptp").chmod(0o755)
    found = network.pod_network(tmp_path, [tmp_path])
    assert found.level == "fail" and 'failed to find plugin "ours"' in found.found
    (tmp_path / "ptp").rename(tmp_path / "ours")
    (tmp_path / "ptp").symlink_to(tmp_path / "ours")
    found = network.pod_network(tmp_path, [tmp_path])
    assert found.level == "ok" and "CNI network pods" in found.found and "(ptp, ours)" in found.found


def test_without_cni_the_bridge_is_checked(tmp_path: Path) -> None:
    found = network.pod_network(tmp_path, [tmp_path])
    assert found.level in ("ok", "warn") and ("bridge" in found.found or found.help)
