"""Libvirt daemons for tests: each in a mount and UTS namespace of its own, with its own settings, state and sockets."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from podfit.vm.machines.folder import SETTINGS
from podfit.vm.machines.process import Orphans, Processes, become_subreaper
from tests.e2e.guest import image

PLACES = {"etc": "/etc/libvirt", "lib": "/var/lib/libvirt", "log": "/var/log/libvirt", "run": "/run/libvirt"}
CACHE = "/var/cache/libvirt"
"""What QEMU can do; asked once, and kept for all tests of this machine."""
START_S = 60.0

needs_libvirtd = pytest.mark.skipif(shutil.which("libvirtd") is None, reason="libvirtd is not installed")


class Libvirtd:
    """As a host has one; two of them are two hosts as far as a migration is concerned."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self._folder = name, folder
        self._process: subprocess.Popen[bytes] | None = None
        for part, place in PLACES.items():
            (folder / part).mkdir(parents=True, exist_ok=True)
            Path(place).mkdir(parents=True, exist_ok=True)
        Path(CACHE).mkdir(parents=True, exist_ok=True)
        (folder / "etc/qemu.conf").write_text(SETTINGS)
        (folder / "libvirtd.conf").write_text(
            f'unix_sock_dir = "{folder}"\nhost_uuid = "{uuid.uuid4()}"\n'
            'auth_unix_ro = "none"\nauth_unix_rw = "none"\nlog_outputs = "3:stderr"\n'
        )

    @property
    def socket(self) -> str:
        return str(self._folder / "libvirt-sock")

    def start(self) -> None:
        cache = image.cache_folder() / "libvirt"
        cache.mkdir(exist_ok=True)
        steps = [f"mount --bind {self._folder / part} {place}" for part, place in PLACES.items()]
        steps += [f"mount --bind {cache} {CACHE}", f"hostname {self.name}"]
        command = f"libvirtd --config {self._folder}/libvirtd.conf --pid-file {self._folder}/libvirtd.pid"
        script = " && ".join([*steps, f"exec {command}"])
        with (self._folder / "stderr").open("ab") as errors:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", script], stderr=errors
            )
        patience = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "stderr").read_text()
            assert time.monotonic() < patience, "libvirtd does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        """The file of the socket outlives a daemon that was killed: only a connection proves anything."""
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
            probe.connect(self.socket)
            return True
        return False

    def kill(self) -> None:
        """Its VMs go on running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def running_vms(self) -> list[int]:
        """The QEMU processes that it noted and that have not exited."""
        found = []
        for file in (self._folder / "run/qemu").glob("podfit-*.pid"):
            with contextlib.suppress(OSError, ValueError):
                pid = int(file.read_text())
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append(pid)
        return found

    def end_vms(self) -> None:
        """Ends QEMU processes that are left."""
        for pid in self.running_vms():
            with contextlib.suppress(OSError):
                os.kill(pid, 9)


@contextlib.contextmanager
def libvirtds(folder: Path, *names: str) -> Iterator[list[Libvirtd]]:
    made = [Libvirtd(folder / name, name) for name in names]
    # QEMU outlives its daemon as a child of this process; a daemon takes a zombie for a running VM.
    become_subreaper()
    try:
        with Orphans(Processes()).reaped():
            for item in made:
                item.start()
            yield made
    finally:
        for item in made:
            item.end_vms()
            item.kill()
