"""Locks a data directory for one process, or for several that agreed to share it.

The lock is an flock: the kernel releases it when its holder exits, even by SIGKILL, so no lock is ever stale. The file
also names the holder, for messages and for signalling it; only the kernel's lock determines whether the directory is in
use.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType


@dataclass(frozen=True)
class Holder:
    """A process. Its start time distinguishes it from a later one with the same pid."""

    pid: int
    started: int
    """In clock ticks since boot, as counted by the kernel."""
    command: str

    def __str__(self) -> str:
        return f"`{self.command}` (pid {self.pid})"

    def alive(self) -> bool:
        return self.started == _start_time(self.pid)

    def terminate(self) -> bool:
        """Sends SIGTERM and waits until the process has exited. False if there is no such process, or it may not be
        signalled."""
        try:
            process = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            # From here on the descriptor refers to one process: the check cannot become invalid before the signal.
            if not self.alive():
                return False
            signal.pidfd_send_signal(process, signal.SIGTERM)
            ended = select.poll()
            ended.register(process, select.POLLIN)
            ended.poll()
            return True
        except OSError:
            return False
        finally:
            os.close(process)


class InUse(Exception):
    """Another process holds the directory; `holder` is None if it cannot be seen from here."""

    def __init__(self, folder: Path, holder: Holder | None, advice: str) -> None:
        super().__init__(f"the data directory {folder} is in use by {holder or 'another process'}: {advice}")
        self.folder, self.holder = folder, holder


class DirectoryLock:
    """`with DirectoryLock(…):` holds the directory; raises InUse if another process holds it."""

    ADVICE = "stop that process first, or choose another data directory"

    def __init__(self, folder: Path, file: str, command: str, advice: str = ADVICE, *, shared: bool = False) -> None:
        """`file` names the lock inside the directory: processes that do not interfere use different ones. Holders that
        are all `shared` hold it together."""
        self.folder, self.path = folder, folder / file
        self._command, self._advice = command, advice
        self._mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._descriptor: int | None = None

    def take(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, self._mode | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InUse(self.folder, holder_of(self.path), self._advice) from None
        self._descriptor = descriptor
        data = json.dumps(asdict(this_process(self._command))).encode()
        # The lock is held whether or not a full disk has space for the holder's name.
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, data, 0)
            os.ftruncate(descriptor, len(data))

    def release(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            # Truncated, not removed: otherwise two processes could lock two files of the same name. With several
            # holders the file names the last one.
            if holder_of(self.path) == this_process(self._command):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def __enter__(self) -> DirectoryLock:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def this_process(command: str) -> Holder:
    return Holder(os.getpid(), _start_time(os.getpid()), command)


def holder_of(lock: Path) -> Holder | None:
    """The living process that the lock file names."""
    try:
        holder = Holder(**json.loads(lock.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return holder if holder.alive() else None


def _start_time(pid: int) -> int:
    """Returns -1 if there is no such process."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # The second field is the program's name in parentheses and may contain anything.
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return -1
