"""The keeper's state of one container: its process, its streams, its log, and the state file that outlives both.

A container's standard output and error are named pipes in its folder, which the container itself holds open for reading
and writing: if the keeper dies, the pipes neither break (no SIGPIPE) nor get lost (its successor opens them again).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import termios
import time
from typing import Any

from .logfile import MAX_BYTES, MAX_FILES, LogFile
from .terminal import receive_terminal

STATE = "state.json"
CHUNK = 65536
BACKLOG = 1 << 20
STATE_BYTES = 4096
"""Usually a whole block of the file system."""


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def start_ticks(pid: int) -> int:
    """The start time of the process, in clock ticks since boot; 0 if it does not exist. It differs if the pid was
    reused."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


def write_state(folder: str, state: dict[str, Any]) -> None:
    """Replaces the file or, if the disk is full, overwrites the block that `reserve_state` allocated for it."""
    data = json.dumps(state).encode()
    temporary, path = os.path.join(folder, ".state.tmp"), os.path.join(folder, STATE)
    try:
        with open(temporary, "wb") as file:
            file.write(data.ljust(STATE_BYTES))
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if len(data) > STATE_BYTES:
            data = json.dumps({**state, "message": ""}).encode()
        # Without the folder the state is no longer needed.
        with contextlib.suppress(OSError), open(path, "r+b", buffering=0) as file:
            file.write(data.ljust(STATE_BYTES))


def reserve_state(folder: str) -> None:
    """Reserves disk space for the state before the container starts: its exit is recorded even on a full disk."""
    with open(os.path.join(folder, STATE), "wb") as file:
        file.write(b"{}".ljust(STATE_BYTES))


def read_json(folder: str, name: str) -> dict[str, Any]:
    try:
        with open(os.path.join(folder, name)) as file:
            content = json.load(file)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


class Child:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.id: str = spec["id"]
        self.pod: str = spec["pod_uid"]
        self.folder: str = spec["folder"]
        self.pid = 0
        self.pidfd = -1
        self.state: dict[str, Any] = {}
        self.log = LogFile(spec["log_file"], spec.get("log_max_bytes", MAX_BYTES), spec.get("log_max_files", MAX_FILES))
        self.readers: dict[int, str] = {}
        """Descriptor → the stream on it."""
        self.input = -1
        self.unfed = b""
        self.terminal = -1
        self.console: socket.socket | None = None
        """The socket over which the terminal arrives."""
        self.attached: list[socket.socket] = []

    def open_streams(self) -> tuple[int, ...]:
        """Creates the streams; returns the descriptors that `launch.run` passes to the program, to be closed here after
        the fork."""
        if self.spec["tty"]:
            self.console, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            return (theirs.detach(),)
        ends = [self._open_pipe(name) for name in ("stdout", "stderr")]
        if not self.spec["stdin"]:
            return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), ends[0], ends[1]
        source, self.input = os.pipe()
        os.set_blocking(self.input, False)
        return source, ends[0], ends[1]

    def take_terminal(self) -> bool:
        """Receives the terminal that the child created inside the container; False if there is none."""
        if self.console is None:
            return False
        self.terminal = receive_terminal(self.console)
        self.console.close()
        self.console = None
        if self.terminal < 0:
            return False
        os.set_blocking(self.terminal, False)
        self.readers[self.terminal] = "stdout"
        if self.spec["stdin"]:
            self.input = os.dup(self.terminal)
        return True

    def _open_pipe(self, stream: str) -> int:
        path = os.path.join(self.folder, stream)
        if not os.path.exists(path):
            os.mkfifo(path, 0o600)
        if self.spec["uid"]:
            # Programs reopen /dev/stdout, which checks the owner of the pipe.
            os.chown(path, self.spec["uid"], -1)
        self.readers[os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)] = stream
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def reopen_streams(self) -> None:
        """Opens the streams in a new keeper: the container still holds the pipes open."""
        for stream in ("stdout", "stderr"):
            path = os.path.join(self.folder, stream)
            if os.path.exists(path):
                self.readers[os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)] = stream

    def started(self, pid: int) -> None:
        self.pid = pid
        self.state = {"pid": pid, "start_ticks": start_ticks(pid), "boot": boot_id(), "started_at": time.time()}

    def pump(self, descriptor: int) -> bool:
        """Copies one piece of output; False at its end."""
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            # EIO: all holders of the terminal's other end have closed it.
            return False
        if not data:
            return False
        stream = self.readers[descriptor]
        self.log.add(stream, data)
        packet = (b"\1" if stream == "stdout" else b"\2") + data
        for listener in list(self.attached):
            try:
                listener.send(packet)
            except OSError:
                # The listener is too slow or disconnected: output goes to the log first, and a listener must not block
                # the container.
                self.detach(listener)
        return True

    def drain(self) -> None:
        """Reads everything left in the pipes of an exited container."""
        for descriptor in list(self.readers):
            while True:
                try:
                    waiting = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0]
                except OSError:
                    break
                if waiting <= 0 or not self.pump(descriptor):
                    break

    def feed(self, data: bytes) -> bool:
        """Writes to the program's input; False if part of the data has to wait until the program reads."""
        self.unfed += data
        try:
            while self.unfed:
                self.unfed = self.unfed[os.write(self.input, self.unfed) :]
        except BlockingIOError:
            return False
        except OSError:
            # The program closed its input.
            self.unfed = b""
        return True

    def signal(self, number: int) -> None:
        """Sends a signal. A child's pid stays valid until we wait for it; an adopted process is signalled through its
        pidfd."""
        if self.pidfd >= 0:
            signal.pidfd_send_signal(self.pidfd, number)
        else:
            os.kill(self.pid, number)

    def detach(self, listener: socket.socket) -> None:
        if listener in self.attached:
            self.attached.remove(listener)
        listener.close()

    def close_input(self) -> None:
        if self.input >= 0:
            os.close(self.input)
        self.input = -1

    def finished(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        code = 128 - code if code < 0 else code
        self.record_end(code, "OOMKilled" if code and self.oom_kills() else "Completed" if code == 0 else "Error", "")

    def record_end(self, code: int, reason: str, message: str) -> None:
        self.state |= {"finished_at": time.time(), "exit_code": code, "reason": reason, "message": message}
        self.drain()
        for descriptor in self.readers:
            os.close(descriptor)
        self.readers.clear()
        self.close_input()
        for listener in list(self.attached):
            self.detach(listener)
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        self.log.finish()
        write_state(self.folder, self.state)

    def oom_kills(self) -> int:
        """The number of OOM kills. The cgroup is created with the container, so every kill in it is the container's."""
        try:
            with open(self.spec["oom_file"]) as file:
                for line in file:
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        except OSError:
            return 0
        return 0

    def kill_leftovers(self) -> None:
        """Kills the program's children, which would otherwise outlive a program without its own pid namespace."""
        try:
            with open(self.spec["procs_file"]) as file:
                pids = [int(line) for line in file]
        except OSError:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
