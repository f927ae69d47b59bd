"""`podfit down` beside a running podfit: refused without changes, or with --force after stopping that podfit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.process.support import check_support
from tests.e2e.conftest import Running, eventually
from tests.e2e.parts import Part

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - {name: c, image: host, command: [sleep, "3600"], volumeMounts: [{name: m, mountPath: /m}]}
  volumes:
  - {name: m, emptyDir: {medium: Memory}}
"""
needs_pods = pytest.mark.skipif(
    bool(check_support()) or shutil.which("kubectl") is None, reason="needs cgroups and kubectl"
)
FAKE = ("--runtime", "fake", "--node-name", "n1")


def podfit(*words: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "podfit.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "data", *FAKE)
    try:
        yield running.start()
    finally:
        running.stop()


def pid_of(running: Running) -> int:
    assert running.process is not None
    return running.process.pid


def test_down_beside_a_running_up_is_refused_with_the_pid_and_the_way_out(up: Running) -> None:
    code, out, err = podfit("down", "--data-dir", str(up.folder))
    assert (code, out, err.count("\n")) == (3, "", 1), err
    assert f"{up.folder} is in use by `podfit up` (pid {pid_of(up)})" in err
    assert f"`podfit down --force --data-dir {up.folder}`" in err


def test_down_with_force_returns_after_the_running_up_has_ended(up: Running) -> None:
    code, out, err = podfit("down", "--force", "--data-dir", str(up.folder))
    assert code == 0, err
    assert up.process is not None and up.process.wait(0) == 0
    assert f"stopping `podfit up` (pid {pid_of(up)})" in err and out == "no pods were running\n"


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_second_up_on_the_data_directory_is_refused(up: Running, store: str) -> None:
    words = ("up", "--data-dir", str(up.folder), "--listen", "127.0.0.1:0", "--store", store, *FAKE)
    code, out, err = podfit(*words)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert f"{up.folder} is in use by `podfit up` (pid {pid_of(up)})" in err


def test_after_sigkill_the_data_directory_is_free(up: Running) -> None:
    up.stop(signal.SIGKILL)
    assert podfit("down", "--data-dir", str(up.folder))[0] == 0
    up.start()


def test_an_agent_holds_its_data_directory_and_may_share_it_with_the_cluster(up: Running) -> None:
    agent = ("agent", "--kubeconfig", str(up.kubeconfig), "--data-dir", str(up.folder), "--runtime", "fake")
    part = Part(*agent, "--node-name", "n2", ready=True)
    try:
        code, _, err = podfit(*agent, "--node-name", "n3")
        assert code == 1 and f"`podfit agent` (pid {part.process.pid})" in err
        up.stop()
        code, _, err = podfit("down", "--data-dir", str(up.folder))
        assert code == 3 and f"`podfit agent` (pid {part.process.pid})" in err
    finally:
        part.stop()


def test_an_agent_with_the_name_of_a_running_node_is_refused(up: Running, tmp_path: Path) -> None:
    agent = ("agent", "--kubeconfig", str(up.kubeconfig), "--runtime", "fake", "--node-name", "n1")
    for folder in (up.folder, tmp_path / "elsewhere"):
        code, out, err = podfit(*agent, "--data-dir", str(folder))
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert "node n1 is already served by an agent at " in err and "--node-name" in err


def test_down_without_a_data_directory_makes_none(tmp_path: Path) -> None:
    code, out, _ = podfit("down", "--data-dir", str(tmp_path / "none"))
    assert code == 0 and "no pods to stop" in out
    assert not (tmp_path / "none").exists()


@needs_pods
def test_pods_of_a_running_up_survive_a_refused_down_and_end_with_force(tmp_path: Path) -> None:
    running = Running(tmp_path / "data", "--node-name", "n1").start()
    try:
        run_pod(running)
        before = container_of(running)
        assert podfit("down", "--data-dir", str(running.folder))[0] == 3
        assert pods_of(running.folder)
        assert container_of(running) == before
    finally:
        code, out, err = podfit("down", "--force", "--data-dir", str(running.folder))
        assert (code, out) == (0, "ended 1 pod; its object is still in the store\n"), err
    assert podfit("down", "--data-dir", str(running.folder))[1] == "no pods were running\n"
    assert running.process is not None and running.process.wait(0) == 0
    assert not pods_of(running.folder)
    shutil.rmtree(running.folder)


@needs_pods
def test_stop_pods_leaves_nothing_that_holds_the_data_directory(tmp_path: Path) -> None:
    running = Running(tmp_path / "data", "--node-name", "n1", "--stop-pods").start()
    try:
        run_pod(running)
    finally:
        running.stop()
    shutil.rmtree(running.folder)


@needs_pods
def test_a_memory_volume_is_memory_again_after_down_and_up(tmp_path: Path) -> None:
    running = Running(tmp_path / "data", "--node-name", "n1").start()
    try:
        run_pod(running)
        before = container_of(running)["containerID"]
        assert podfit("down", "--force", "--data-dir", str(running.folder))[0] == 0
        running.start()
        # While the new sandbox is created, there is no container and no ID.
        eventually(
            lambda: container_of(running).get("containerID", before) != before, "the container was started again"
        )
        running.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
        assert "tmpfs" in running.kubectl("exec", "web", "--", "grep", " /m ", "/proc/mounts")
    finally:
        assert podfit("down", "--force", "--data-dir", str(running.folder))[0] == 0


def run_pod(running: Running) -> None:
    running.kubectl("apply", "-f", "-", stdin=POD)
    running.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")


def container_of(running: Running) -> Any:
    return running.json("get", "pod", "web")["status"]["containerStatuses"][0]


def pods_of(folder: Path) -> list[str]:
    """The command lines of processes that podfit started for this data directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                found.append((entry / "cmdline").read_bytes().decode("utf-8", "replace"))
            except OSError:
                continue
    return [line for line in found if str(folder / "nodes") in line]
