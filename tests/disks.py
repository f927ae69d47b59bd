"""Small disks for tests of full ones: mounted for the time of a test, and gone after it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")


@contextlib.contextmanager
def small_disk(folder: Path, size: int, kind: str = "tmpfs") -> Iterator[Path]:
    folder.mkdir()
    what, options = "small", f"size={size}"
    if kind != "tmpfs":
        if shutil.which(f"mkfs.{kind}") is None:
            pytest.skip(f"mkfs.{kind} is not installed")
        image = folder.with_name(f"{folder.name}.img")
        image.touch()
        os.truncate(image, size)
        subprocess.run([f"mkfs.{kind}", "-q", "-m", "0", str(image)], check=True)
        what, options = str(image), "loop"
    if subprocess.run(["mount", "-t", kind, "-o", options, what, str(folder)], capture_output=True).returncode:
        pytest.skip(f"a {kind} cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path, leave: int = 0) -> None:
    """Grows the file until the disk is full, but for `leave` bytes."""
    with contextlib.suppress(OSError), file.open("ab", buffering=0) as filled:
        while filled.write(bytes(1 << 16)):
            pass
    with contextlib.suppress(OSError), file.open("ab", buffering=0) as filled:
        while filled.write(bytes(512)):
            pass
    os.truncate(file, max(0, file.stat().st_size - leave))
