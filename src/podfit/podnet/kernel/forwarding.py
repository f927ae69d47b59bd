"""Enables net.ipv4.ip_forward while a podfit process of the network namespace needs it, and then restores it.

Users are recorded below /run/podfit, in a folder per namespace, with their data directory: one that was deleted without
`podfit down` no longer counts. If forwarding was on already, nothing is changed at the end.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RUN = Path("/run/podfit")
_SWITCH = Path("/proc/sys/net/ipv4/ip_forward")
_WAS_OFF = "ip_forward-was-off"


@contextmanager
def shared() -> Iterator[Path]:
    """The folder of this network namespace, locked against every other podfit."""
    folder = RUN / str(os.stat("/proc/self/ns/net").st_ino)
    (folder / "users").mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(lock)


def turn_on(user: str, data_dir: Path) -> None:
    with shared() as folder:
        _forget_gone(folder)
        if not any((folder / "users").iterdir()):
            (folder / _WAS_OFF).unlink(missing_ok=True)
        (folder / "users" / user).write_text(str(data_dir))
        if _SWITCH.read_text().strip() == "0":
            (folder / _WAS_OFF).touch()
            _SWITCH.write_text("1")


def release(user: str) -> None:
    with shared() as folder:
        (folder / "users" / user).unlink(missing_ok=True)
        _forget_gone(folder)
        if any((folder / "users").iterdir()):
            return
        if (folder / _WAS_OFF).exists():
            _SWITCH.write_text("0")
            (folder / _WAS_OFF).unlink()


def _forget_gone(folder: Path) -> None:
    for user in (folder / "users").iterdir():
        if not os.path.exists(user.read_text()):
            user.unlink()
