"""A real `podfit up` in its own process, and a real kubectl."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.runtimes.process.support import check_support

from .noderuntimes import node_runtime

__all__ = ["node_runtime"]

KUBECTL = shutil.which("kubectl")


class Running:
    """`podfit up` as a user starts it."""

    def __init__(self, folder: Path, *arguments: str, log: Path | None = None, within: tuple[str, ...] = ()) -> None:
        """`log`: a file for its stderr. `within`: arguments before its command and kubectl's."""
        self.folder = folder
        self.within = within
        self.log = log
        self.arguments = arguments
        self.process: subprocess.Popen[str] | None = None
        self.kubeconfig = folder / "admin.kubeconfig"

    def start(self) -> Running:
        command = [
            *self.within,
            sys.executable,
            "-m",
            "podfit.cli.main",
            "up",
            "--data-dir",
            str(self.folder),
            "--listen",
            "127.0.0.1:0",
        ]
        stderr = self.log.open("w") if self.log is not None else None
        self.process = subprocess.Popen([*command, *self.arguments], stdout=subprocess.PIPE, stderr=stderr, text=True)
        if stderr is not None:
            stderr.close()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), f"no ready line but {line!r}"
        return self

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def try_kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Whether the process succeeded or not."""
        assert KUBECTL is not None
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder)}
        return subprocess.run(
            [*self.within, KUBECTL, *arguments],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def kubectl(self, *arguments: str, stdin: str | None = None, fails: bool = False) -> str:
        done = self.try_kubectl(*arguments, stdin=stdin)
        assert (done.returncode != 0) == fails, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stderr + done.stdout if fails else done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.kubectl(*arguments, "-o", "json"))


def eventually(true: Callable[[], Any], what: str, patience_s: float = 60.0) -> Any:
    """Polls until the condition holds, for states that only a command line can observe."""
    end = time.monotonic() + patience_s
    while True:
        found = true()
        if found:
            return found
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.1)


def real_runtime() -> str:
    """The process runtime if this machine supports it, else the fake one."""
    return "fake" if check_support() else "process"


@pytest.fixture(scope="module")
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A cluster on podfit's own runtime; modules that use `node_runtime` run on that one."""
    if KUBECTL is None:
        pytest.skip("kubectl is not installed")
    chosen: tuple[str, ...] = ("--runtime", real_runtime())
    if "node_runtime" in request.fixturenames:
        chosen = request.getfixturevalue("node_runtime").arguments
    running = Running(
        tmp_path_factory.mktemp("up"),
        "--node-name",
        "n1",
        *chosen,
        "--node-cpu",
        "4",
        "--stop-pods",
    )
    try:
        yield running.start()
    finally:
        running.stop()


QUICK_ON_CRI = ("test_kubectl", "test_seed_memory", "test_seed_room")
"""The suites that run on containerd in every `make test`; the larger ones run in `make test-all`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        chosen = getattr(item, "callspec", None)
        if chosen is not None and chosen.params.get("node_runtime") == "cri" and item.path.stem not in QUICK_ON_CRI:
            item.add_marker(pytest.mark.slow)
