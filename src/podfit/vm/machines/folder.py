"""Prepares the folder of libvirt's embedded QEMU driver: its settings, and the checks that this machine can run it."""

from __future__ import annotations

import hashlib
import logging
import os
import pwd
import shutil
import signal
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

SETTINGS = """\
# QEMU runs as root in the pod's cgroup, which it inherits from the thread that starts it: libvirt must not move it.
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
stdio_handler = "file"
cgroup_controllers = []
"""
USER = "libvirt-qemu"


class CannotRun(Exception):
    """This machine lacks a requirement of VMs; the message says which, and how to install it."""


LONGEST_ROOT = 30
"""libvirt creates sockets deep below the folder, and the path of a socket may have 107 characters."""
SHORT = Path("/run/podfit")


def prepare(folder: Path) -> Path:
    """Writes the settings; returns the path of the folder for libvirt, a short link to it if necessary."""
    (folder / "etc").mkdir(parents=True, exist_ok=True)
    settings = folder / "etc" / "qemu.conf"
    if not settings.exists() or settings.read_text() != SETTINGS:
        settings.write_text(SETTINGS)
    whole = folder.resolve()
    if len(str(whole)) <= LONGEST_ROOT:
        return whole
    SHORT.mkdir(mode=0o700, exist_ok=True)
    link = SHORT / f"vm-{hashlib.sha256(str(whole).encode()).hexdigest()[:8]}"
    if not link.is_symlink():
        link.symlink_to(whole)
    return link


def forget(folder: Path) -> None:
    """Removes the link, if `folder` is one. QEMU processes have files under its path, so none may be left."""
    if folder.is_symlink() and folder.parent == SHORT:
        folder.unlink()


def forget_interrupted(folder: Path) -> None:
    """Removes libvirt's state of VMs that it was starting or stopping when the process ended.

    libvirt would take a VM without a QEMU for running forever, locked by its start: a QEMU waits until its pid is in
    the state before it executes. It would not load the state of a VM whose monitor it had closed to stop it."""
    for state in (folder / "run" / "qemu").glob("*.xml"):
        try:
            status = ElementTree.parse(state).getroot()
        except ElementTree.ParseError:
            continue
        pid = int(status.get("pid", "0"))
        if pid and status.find("monitor") is not None:
            continue
        log.info("the %s of the VM %s was interrupted", "stop" if pid else "start", state.stem)
        if pid:
            _kill(pid, state.stem)
        state.unlink()


def _kill(pid: int, name: str) -> None:
    with suppress(OSError):
        if f"guest={name},".encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


def emulator() -> str:
    found = shutil.which("qemu-system-x86_64")
    if found is None:
        raise CannotRun("qemu-system-x86_64 is not installed (Debian: apt-get install qemu-system-x86 qemu-utils)")
    return found


def check_user() -> None:
    """libvirt's driver resolves this user before it reads any settings, and fails if it does not exist."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        raise CannotRun(
            f"the user {USER} does not exist; libvirt's QEMU driver needs it even when QEMU runs as another "
            f"(useradd --system --user-group --no-create-home {USER})"
        ) from None
