"""The first five minutes of a user who types `make run`."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import real_runtime

pytestmark = pytest.mark.xdist_group("demo")
COMMAND = [sys.executable, "-m", "podfit.cli.main", "demo"]
MARKS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A pseudo-terminal in which a command runs, with all its output."""

    def __init__(self, command: list[str], rows: int = 45, columns: int = 140) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)}
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execv(command[0], command)
        self.text = ""

    def read(self, patience_s: float) -> bool:
        """False once the command has ended."""
        ready, _, _ = select.select([self._end], [], [], patience_s)
        if not ready:
            return True
        try:
            piece = os.read(self._end, 1 << 16)
        except OSError:
            return False
        self.text += MARKS.sub("", piece.decode("utf-8", "replace"))
        return bool(piece)

    def until(self, pattern: str, patience_s: float) -> None:
        end = time.monotonic() + patience_s
        while not re.search(pattern, self.text):
            assert self.read(1.0), f"ended without {pattern!r}:\n{self.text[-4000:]}"
            assert time.monotonic() < end, f"never showed {pattern!r}:\n{self.text[-4000:]}"

    def interrupt(self) -> int:
        os.kill(self.pid, signal.SIGINT)
        while self.read(30.0):
            pass
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Creates terminals; a demo that a failed test left running is stopped with everything it created."""
    made: list[Terminal] = []

    def open_one(command: list[str], **size: int) -> Terminal:
        made.append(Terminal(command, **size))
        return made[-1]

    yield open_one
    for terminal in made:
        if terminal.pid:
            os.kill(terminal.pid, signal.SIGKILL)
            os.waitpid(terminal.pid, 0)
            subprocess.run([*COMMAND[:-1], "down", "--data-dir", str(tmp_path / "run")], timeout=60, check=False)


def test_a_minute_in_a_terminal_shows_a_pod_grow_and_shrink_without_a_restart(
    tmp_path: Path, terminals: Callable[..., Terminal]
) -> None:
    terminal = terminals([*COMMAND, "--data-dir", str(tmp_path / "run")])
    terminal.until(r"resized in place: [1-9]\d* up, [1-9]\d* down; restarts: 0", 60)
    terminal.until("ResizeCompleted", 10)
    terminal.until("[▂▃▄▅▆▇█]", 30)
    for word in (
        "desired",
        "allocated",
        "actuated",
        "actual",
        "usage",
        "web",
        "worker",
        "last events",
        "ResizeCompleted",
    ):
        assert word in terminal.text, word
    assert ("Fake runtime" in terminal.text) == (real_runtime() == "fake")
    assert terminal.interrupt() == 0
    assert "podfit demo ended" in terminal.text and "Traceback" not in terminal.text
    assert_nothing_left(tmp_path)


def test_a_narrow_terminal_shows_spark_lines_too(tmp_path: Path, terminals: Callable[..., Terminal]) -> None:
    terminal = terminals([*COMMAND, "--runtime", "fake", "--data-dir", str(tmp_path / "run")], rows=24, columns=80)
    terminal.until(r"web uses\s+cpu [▁-█]*[▂▃▄▅▆▇█]", 30)
    assert terminal.interrupt() == 0


def test_without_a_terminal_it_prints_lines(tmp_path: Path) -> None:
    # A folder named relative to the working directory, as `make run` does.
    command = [*COMMAND, "--data-dir", ".run", "--seconds", "12"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout and "▲ in place (restarts 0)" in done.stdout
    assert_nothing_left(tmp_path)


def test_without_rights_it_reports_it_and_runs_on_the_fake_runtime(tmp_path: Path) -> None:
    setpriv = "/usr/bin/setpriv"
    without = [setpriv, "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    if without and not os.path.exists(setpriv):
        pytest.skip("setpriv is not installed")
    command = [*without, *COMMAND, "--data-dir", str(tmp_path / "run"), "--seconds", "12"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert "Fake runtime" in done.stdout and "What would change it" in done.stdout
    assert "▲ in place (restarts 0)" in done.stdout


def test_the_screen_can_be_kept_as_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    command = [sys.executable, "-m", "podfit.cli.main", "demo", "--runtime", "fake", "--seconds", "3"]
    command += ["--data-dir", str(tmp_path / "run"), "--record", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert picture.read_text().startswith("<svg") and "allocated" in picture.read_text()


def test_a_recorded_screen_shows_no_directory_above_the_working_directory(tmp_path: Path) -> None:
    command = [*COMMAND, "--runtime", "fake", "--seconds", "2", "--data-dir", "run", "--record", "demo.svg"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "demo.svg").read_text()
    assert "KUBECONFIG=$PWD/run/admin.kubeconfig" in written and str(tmp_path.parent) not in written


def test_the_picture_of_the_readme_can_be_recorded_again(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    script = Path(__file__).resolve().parents[2] / "scripts" / "record-demo"
    picture = tmp_path / "demo.svg"
    command = [sys.executable, str(script), "--runtime", "fake", "--output", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    written = picture.read_text()
    assert written.startswith("<svg") and "500m short" in written and "Story:" in written


def assert_nothing_left(folder: Path) -> None:
    """No process of the demo's pods, whatever its data directory was."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            assert str(folder) not in words, f"left running: {words}"
