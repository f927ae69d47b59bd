"""The tutorial, typed as written: every block must work, with the results that the text promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Running, eventually, real_runtime

ROOT = Path(__file__).resolve().parents[2]
SECTION = re.compile(r"^## (\d+)\. .*$", re.MULTILINE)


def blocks(section: int) -> list[str]:
    """The shell blocks of one section of the tutorial."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    parts = SECTION.split(text)
    body = parts[parts.index(str(section)) + 1]
    return re.findall(r"^```\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def two_cpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    folder = tmp_path_factory.mktemp("tutorial") / "podfit-data"
    running = Running(folder, "--node-name", "n1", "--node-cpu", "2", "--runtime", real_runtime(), "--stop-pods")
    try:
        yield running.start()
    finally:
        running.stop()


def type_in(at: Running, block: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(at.kubeconfig), "HOME": str(at.folder)}
    text = block.replace(".venv/bin/podfit", f"{sys.executable} -m podfit.cli.main")
    command, there = ["bash", "-e", "-c", text], at.folder.parent
    done = subprocess.run(command, env=environment, cwd=there, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_tutorial_works_as_written(two_cpus: Running) -> None:
    at = two_cpus
    for block in blocks(2):
        type_in(at, block)

    resize, *_ = blocks(3)
    type_in(at, resize)
    eventually(lambda: limits(at)["cpu"] == "1", "the pod has its new limit")
    assert at.json("get", "pod", "hello")["status"]["containerStatuses"][0]["restartCount"] == 0

    assert "ACTUATED" in type_in(at, blocks(4)[0])

    wait, free = blocks(5)
    type_in(at, wait)
    eventually(lambda: "Deferred" in at.kubectl("get", "pod", "hello", "-o", "yaml"), "the resize is deferred")
    assert limits(at)["cpu"] == "1"
    type_in(at, free)
    eventually(lambda: limits(at)["cpu"] == "1500m", "the resize is done once there is room")

    reported = type_in(at, blocks(6)[0])
    assert "vpa/web scales deployment/web" in reported

    type_in(at, blocks(7)[0])
    assert at.process is not None and at.process.wait(0) == 0
    assert not at.folder.exists()


def limits(at: Running) -> dict[str, str]:
    status = at.json("get", "pod", "hello")["status"]["containerStatuses"][0]
    return dict((status.get("resources") or {}).get("limits") or {})
