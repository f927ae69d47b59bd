"""Detects the exit of QEMU's processes at once and reaps them, so that no zombie counts as a running VM.

libvirt detaches QEMU, so it becomes a child of the nearest subreaper. This process is that subreaper: otherwise PID 1
reaps it, often late, and libvirt takes the zombie for a running VM. QEMU started by an earlier process is not our
child: its exit is detected, but its exit status is unknown.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_S = 0.02

Ended = Callable[[int | None], None]
"""Called with the exit code as in a shell (128 + signal), None if it is unknown."""


def become_subreaper() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        log.warning("this process cannot be a subreaper: %s", os.strerror(ctypes.get_errno()))


class Processes:
    def __init__(self) -> None:
        self._watched: dict[int, int] = {}

    def watch(self, pid: int, ended: Ended) -> None:
        """Calls `ended` once, when the process has exited."""
        if pid in self._watched:
            return
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            loop.call_soon(ended, None)
            return
        self._watched[pid] = descriptor
        loop.add_reader(descriptor, self._over, pid, ended)

    def _over(self, pid: int, ended: Ended) -> None:
        descriptor = self._watched.pop(pid)
        asyncio.get_running_loop().remove_reader(descriptor)
        code = _reap(descriptor)
        os.close(descriptor)
        ended(code)

    def __contains__(self, pid: int) -> bool:
        return pid in self._watched

    def close(self) -> None:
        for descriptor in self._watched.values():
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
        self._watched.clear()


class Orphans:
    """Reaps QEMU processes that libvirt starts only to probe QEMU's capabilities. They become children of this process,
    too; libvirt waits until each is gone, for fifteen seconds if nothing reaps it."""

    def __init__(self, known: Processes) -> None:
        self._known, self._lock = known, threading.Lock()
        self._calls = 0

    @contextmanager
    def reaped(self) -> Iterator[None]:
        """Reaps such processes while a libvirt call is in progress."""
        with self._lock:
            self._calls += 1
            first = self._calls == 1
        if first:
            threading.Thread(target=self._run, name="podfit-orphans", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1

    def _run(self) -> None:
        while self._calls:
            time.sleep(_LOOK_S)
            self._reap()

    def _reap(self) -> None:
        for pid in _children():
            if pid not in self._known and _is_qemu(pid) and _is_zombie(pid) and _is_detached(pid):
                with suppress(ChildProcessError):
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


def _is_zombie(pid: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return False


def _is_detached(pid: int) -> bool:
    """Whether this QEMU process went to the background and so has its own session. The process that forked it is in
    ours: libvirt waits for that process, and fails if it is gone."""
    with suppress(OSError):
        return os.getsid(pid) != os.getsid(0)
    return False


def _is_qemu(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().startswith("qemu-system")
    return False


def _reap(descriptor: int) -> int | None:
    with suppress(ChildProcessError):
        found = os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
        if found is not None:
            return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status
    return None
