"""QEMU processes without a waiting parent are reaped, whatever other zombies there are."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from podfit.vm.machines.process import Orphans, Processes


def zombie(program: str, detached: bool = True) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([program], start_new_session=detached)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    return process


def reaped(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return True
    return False


def test_only_qemu_that_went_to_the_background_is_reaped(tmp_path: Path) -> None:
    emulator = tmp_path / "qemu-system-test"
    shutil.copy(shutil.which("true") or "", emulator)
    other, started = zombie("true"), zombie(str(emulator), detached=False)
    ended = [zombie(str(emulator)), zombie(str(emulator))]
    with Orphans(Processes()).reaped():
        deadline = time.monotonic() + 60
        while not all(reaped(item.pid) for item in ended) and time.monotonic() < deadline:
            time.sleep(0.01)
        # Those that exited later were checked more than once.
        late = zombie(str(emulator))
        while not reaped(late.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert all(reaped(item.pid) for item in (*ended, late))
    for kept in (other, started):
        assert not reaped(kept.pid), "the others are for those who started them"
        kept.wait()
