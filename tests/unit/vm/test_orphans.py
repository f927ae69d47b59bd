"""QEMU processes that nobody waits for are reaped, whatever other zombies there are."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from podfit.vm.machines.process import Orphans, Processes


def zombie(program: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([program])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return process


def reaped(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def test_a_zombie_of_another_program_does_not_hide_qemu(tmp_path: Path) -> None:
    emulator = tmp_path / "qemu-system-test"
    shutil.copy(shutil.which("true") or "", emulator)
    other = zombie("true")
    ended = zombie(str(emulator))
    with Orphans(Processes()).reaped():
        deadline = time.monotonic() + 60
        while not reaped(ended.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert reaped(ended.pid)
    assert not reaped(other.pid), "the others are for those who started them"
    other.wait()
