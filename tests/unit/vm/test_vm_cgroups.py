"""The cgroup of a VM, on the kernel's own cgroups, v1 or v2, with an ordinary process instead of QEMU."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from podfit.vm.cgroups import ROOT, Cgroups
from podfit.vm.decide.sizes import MIB, Limits


def why_not() -> str:
    if os.geteuid() != 0:
        return "cgroups need root"
    groups = Cgroups()
    try:
        groups.create("/podfit-vm-probe")
    except OSError as error:
        return f"cgroups cannot be written: {error}"
    groups.remove("/podfit-vm-probe")
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
LIMITS = Limits(cpu_period=100_000, cpu_quota=150_000, cpu_shares=1536)
HOLD = (
    "import sys; held = bytearray(int(sys.argv[1])); held[::4096] = b'x' * len(held[::4096]); print('held', flush=True)"
)
WAIT = "; sys.stdin.readline()"


@pytest.fixture
def group() -> Iterator[str]:
    name = f"/podfit-vm-{uuid.uuid4().hex[:8]}/pod/vm"
    groups = Cgroups()
    groups.create(name)
    yield name
    for path in (name, *map(str, list(Path(name).parents)[:-1])):
        groups.remove(path)
    assert not groups.exists(name)


@contextlib.contextmanager
def process(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Waits for a line before it begins, so that it can be moved first."""
    begun = "import sys; sys.stdin.readline(); "
    command = [sys.executable, "-c", begun + code, *words]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def begin(running: subprocess.Popen[str]) -> str:
    assert running.stdin is not None and running.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        running.stdin.write("\n")
        running.stdin.flush()
    return running.stdout.readline()


def test_usage_of_a_moved_process_is_counted_and_limited_by_its_cgroup(group: str) -> None:
    groups = Cgroups()
    groups.write(group, LIMITS, 128 * MIB)
    assert groups.memory_limit(group) == 128 * MIB
    with process(HOLD + WAIT, str(48 * MIB)) as running:
        groups.adopt(group, running.pid)
        assert begin(running) == "held\n"
        usage = groups.usage(group)
        assert 48 * MIB <= usage.memory_bytes <= 128 * MIB
        assert usage.rss_bytes >= 48 * MIB
        assert usage.cpu_nanos > 0
        assert str(running.pid) in _members(group)


def test_the_cpu_limit_is_in_the_kernels_form(group: str) -> None:
    groups = Cgroups()
    groups.write(group, LIMITS, 128 * MIB)
    if groups.v2:
        assert (ROOT / group[1:] / "cpu.max").read_text() == "150000 100000\n"
        assert (ROOT / group[1:] / "cpu.weight").read_text() == "59\n"
    else:
        assert (ROOT / "cpu" / group[1:] / "cpu.cfs_quota_us").read_text() == "150000\n"
        assert (ROOT / "cpu" / group[1:] / "cpu.shares").read_text() == "1536\n"


def test_a_limit_below_usage_is_refused_and_kills_no_process(group: str) -> None:
    groups = Cgroups()
    groups.write(group, LIMITS, 128 * MIB)
    with process(HOLD + WAIT, str(64 * MIB)) as running:
        groups.adopt(group, running.pid)
        begin(running)
        with pytest.raises(OSError, match="busy"):
            groups.write(group, LIMITS, 32 * MIB)
        assert groups.memory_limit(group) == 128 * MIB
        assert running.poll() is None and groups.usage(group).oom_kills == 0


def test_a_process_beyond_its_limit_is_killed_and_counted(group: str) -> None:
    groups = Cgroups()
    groups.write(group, LIMITS, 32 * MIB)
    with process(HOLD, str(256 * MIB)) as running:
        groups.adopt(group, running.pid)
        assert begin(running) == ""
        assert running.wait(30) == -9
    assert groups.usage(group).oom_kills >= 1


def _members(group: str) -> list[str]:
    base = ROOT if Cgroups().v2 else ROOT / "memory"
    return (base / group[1:] / "cgroup.procs").read_text().split()
