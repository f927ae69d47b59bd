"""The runtime's contract on a real cgroup v2 kernel: boots one in QEMU and runs the same suite inside."""

from __future__ import annotations

import importlib.util
import platform
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
UNIT = HERE.parent / "unit" / "agent" / "runtimes"
VMS = HERE.parent / "unit" / "vm" / "test_vm_cgroups.py"
CONTRACT = [HERE.parent / "contract" / "test_runtime.py", VMS]
REST = [
    UNIT / name
    for name in (
        "conftest.py",
        "test_process_isolation.py",
        "test_process_memory.py",
        "test_process_supervision.py",
        "test_process_walls.py",
    )
]
BOOT_LIMIT_S = 600


def _image() -> ModuleType:
    spec = importlib.util.spec_from_file_location("podfit_guest_image", HERE / "guest" / "image.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _boot(folder: Path, suites: list[Path]) -> str:
    """The guest's output on its serial console."""
    image = _image()
    try:
        emulator = image.qemu()
        kernel, modules = image.kernel()
        base = image.base_archive(modules)
    except image.CannotBuild as error:
        pytest.skip(f"no cgroup v2 guest here: {error}")
    sources, initramfs = folder / "sources.cpio", folder / "initramfs.cpio"
    image.source_archive(sources, suites)
    with initramfs.open("wb") as out:
        for part in (base, sources):
            out.write(part.read_bytes())
    command = [
        emulator,
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "1280",
        "-nographic",
        "-no-reboot",
    ]
    command += ["-nodefaults", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initramfs)]
    command += ["-append", "console=ttyS0 quiet panic=-1 cgroup_no_v1=all"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=BOOT_LIMIT_S, check=False)
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def _passed(console: str) -> int:
    begun = re.search(r"PODFIT-GUEST-BEGIN (.*)", console)
    assert begun is not None, console[-4000:]
    assert {"cpu", "memory", "pids"} <= set(begun[1].split())
    ended = re.search(r"PODFIT-GUEST-EXIT (\d+)", console)
    assert ended is not None and ended[1] == "0", console[-8000:]
    passed = re.search(r"(\d+) passed", console)
    return int(passed[1]) if passed else 0


only_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the guest is built for x86_64")


@only_x86
def test_the_process_runtime_keeps_its_contract_on_a_cgroup_v2_kernel(tmp_path: Path) -> None:
    assert _passed(_boot(tmp_path, CONTRACT)) >= 29


@only_x86
@pytest.mark.slow
def test_isolation_and_supervision_hold_on_a_cgroup_v2_kernel(tmp_path: Path) -> None:
    assert _passed(_boot(tmp_path, REST)) >= 40
