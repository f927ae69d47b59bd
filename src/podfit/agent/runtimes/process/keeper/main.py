"""The keeper: a small process per node that is the parent of every container and survives the agent.

It forks containers, copies their output to log files, waits for them and records their exit; the agent talks to it
through a socket in the data folder and may restart at any time. The agent manages cgroups: the keeper only lets
children join them. It exits when no container runs and no agent is connected, or none ever connected. Only small
modules are imported: each container starts as a fork of this process, so its memory is the cost of a fork.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from . import launch, linux
from .children import BACKLOG, Child, boot_id, read_json, reserve_state, start_ticks, write_state
from .namespaces import PodNamespaces

Message = dict[str, Any]
SOCKET, LOCK = "keeper.sock", "keeper.lock"
SO_SNDBUFFORCE = 32
LONELY_S = 10.0


class Connection:
    def __init__(self, endpoint: socket.socket) -> None:
        self.endpoint = endpoint
        endpoint.setblocking(False)
        with contextlib.suppress(OSError):
            endpoint.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BACKLOG)

    def receive(self) -> tuple[Message | None, list[int]]:
        data, ancillary, _, _ = self.endpoint.recvmsg(1 << 18, socket.CMSG_LEN(64))
        descriptors = array.array("i")
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(payload[: len(payload) - len(payload) % 4])
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        return (json.loads(data) if data else None), list(descriptors)

    def send(self, message: Message) -> bool:
        try:
            self.endpoint.send(json.dumps(message).encode())
        except OSError:
            return False
        return True


class Keeper:
    def __init__(self, data_dir: str) -> None:
        self.data_dir = data_dir
        self.epoll = select.epoll()
        self.handlers: dict[int, Callable[[], None]] = {}
        self.connections: list[Connection] = []
        self.children: dict[str, Child] = {}
        self.by_pid: dict[int, Child] = {}
        self.execs: dict[int, str] = {}
        self.starting: dict[str, Callable[[], None]] = {}
        self.namespaces = PodNamespaces(os.getpid())

    # --- main loop

    def serve(self, listener: socket.socket) -> None:
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self.listen(listener.fileno(), lambda: self.accept(listener))
        self.listen(wake_read, lambda: self.reap(wake_read))
        self.adopt()
        gc.collect()
        gc.freeze()
        while True:
            ready = self.epoll.poll(None if self.accepted or self.by_pid else LONELY_S)
            for descriptor, _ in ready:
                self.handle(descriptor)
            # The agent that started us may have died before it connected: the keeper does not wait for it forever.
            if not self.connections and not self.by_pid and not self.execs and (self.accepted or not ready):
                return

    accepted = False

    def handle(self, descriptor: int) -> None:
        handler = self.handlers.get(descriptor)
        if handler is None:
            return
        try:
            handler()
        except (BrokenPipeError, ConnectionResetError):
            # The other end was killed; the agent's successor queries what it needs.
            self.forget(descriptor)
        except Exception:
            # An error in one container's stream must not affect the others: the stream is closed.
            traceback.print_exc()
            self.forget(descriptor)

    def listen(self, descriptor: int, handler: Callable[[], None], events: int = select.EPOLLIN) -> None:
        self.handlers[descriptor] = handler
        self.epoll.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        if self.handlers.pop(descriptor, None) is not None:
            with contextlib.suppress(OSError):
                self.epoll.unregister(descriptor)

    def accept(self, listener: socket.socket) -> None:
        connection = Connection(listener.accept()[0])
        self.accepted = True
        self.connections.append(connection)
        self.listen(connection.endpoint.fileno(), lambda: self.receive(connection))

    def receive(self, connection: Connection) -> None:
        try:
            message, descriptors = connection.receive()
        except BlockingIOError:
            return
        except OSError:
            message, descriptors = None, []
        if message is None:
            self.drop(connection)
            return

        def answer(body: Message) -> None:
            self.send(connection, {"re": message["n"], **body})

        try:
            getattr(self, "do_" + message["op"])(message, descriptors, answer)
        except Exception as error:
            answer({"error": launch.words(error)})
        finally:
            for descriptor in descriptors:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def drop(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
            self.forget(connection.endpoint.fileno())
            connection.endpoint.close()

    def send_event(self, event: Message) -> None:
        for connection in list(self.connections):
            self.send(connection, event)

    def send(self, connection: Connection, message: Message) -> None:
        """Sends a message. An agent that does not read is disconnected: it then reconnects and reads all states."""
        if not connection.send(message):
            self.drop(connection)

    # --- operations

    def do_start(self, message: Message, _: list[int], answer: Callable[[Message], object]) -> None:
        spec = read_json(message["folder"], "launch.json")
        reserve_state(spec["folder"])
        child = Child(spec)
        namespaces = self.namespaces.of_pod(spec, message["peers"])
        target = self.namespaces.of_target(spec, int(message.get("target") or 0))
        stdio = child.open_streams()
        reading, status = os.pipe2(os.O_CLOEXEC)
        pid = self.namespaces.fork_into(target or namespaces.get("pid"), fresh=not spec["host_pid"])
        if pid == 0:
            joined = {name: descriptor for name, descriptor in namespaces.items() if name != "pid"}
            launch.run(spec, stdio, joined, status)
        for descriptor in {*stdio, status, *([target] if target else [])}:
            os.close(descriptor)
        child.started(pid)
        self.keep(child)
        self.starting[child.id] = lambda: self.launched(child, reading, answer)
        self.listen(reading, self.starting[child.id])

    def launched(self, child: Child, reading: int, answer: Callable[[Message], object]) -> None:
        """Handles the end of the status pipe, which closes at exec; before that it may carry an error."""
        del self.starting[child.id]
        report = os.read(reading, 65536)
        self.forget(reading)
        os.close(reading)
        if report:
            child.state["failed"] = json.loads(report)["error"]
            answer({"error": child.state["failed"]})
            return
        if child.take_terminal():
            self.follow(child)
        write_state(child.folder, child.state)
        # Sent to all agents: the one that sent the request may be gone, and its successor waits for the event.
        self.send_event({"event": "started", "id": child.id, "pod": child.pod, "state": child.state})
        answer({"state": child.state})

    def do_signal(self, message: Message, _: list[int], answer: Callable[[Message], object]) -> None:
        child = self.children.get(message["id"])
        if child is not None and child.pid in self.by_pid:
            child.signal(message["signal"])
        answer({})

    def do_exec(self, message: Message, descriptors: list[int], answer: Callable[[Message], object]) -> None:
        child = self.children.get(message["id"])
        if child is None or child.pid not in self.by_pid:
            answer({"error": "container is not running"})
            return
        spec = {**child.spec, "argv": message["argv"], "tty": message["tty"]}
        if message["tty"]:
            spec["environment"] = {"TERM": "xterm", **spec["environment"]}
        pid_namespace = os.open(f"/proc/{child.pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        # A pid would identify another process inside that namespace; a descriptor does not.
        process = os.pidfd_open(child.pid)
        reading, status = os.pipe2(os.O_CLOEXEC)
        pid = self.namespaces.fork_into(pid_namespace, fresh=False)
        if pid == 0:
            launch.run_in(spec, tuple(descriptors), process, status)
        for descriptor in (status, pid_namespace, process):
            os.close(descriptor)
        self.execs[pid] = message["key"]
        self.listen(reading, lambda: self.exec_launched(reading, pid, answer))

    def exec_launched(self, reading: int, pid: int, answer: Callable[[Message], object]) -> None:
        report = os.read(reading, 65536)
        self.forget(reading)
        os.close(reading)
        answer({"error": json.loads(report)["error"]} if report else {"pid": pid})

    def do_exec_signal(self, message: Message, _: list[int], answer: Callable[[Message], object]) -> None:
        for pid, key in self.execs.items():
            if key == message["key"]:
                os.kill(pid, message["signal"])
        answer({})

    def do_attach(self, message: Message, descriptors: list[int], answer: Callable[[Message], object]) -> None:
        child = self.children.get(message["id"])
        if child is None or child.pid not in self.by_pid:
            answer({"error": "container is not running"})
            return
        listener = socket.socket(fileno=os.dup(descriptors[0]))
        listener.setblocking(False)
        with contextlib.suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BACKLOG)
        child.attached.append(listener)
        self.listen(listener.fileno(), lambda: self.feed(child, listener))
        answer({})

    def feed(self, child: Child, listener: socket.socket) -> None:
        """Passes input from an attached client to the container."""
        descriptor = listener.fileno()
        try:
            data = listener.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.forget(descriptor)
            if child.spec["stdin_once"]:
                child.close_input()
        elif child.input >= 0 and not child.feed(data):
            # The program does not read: stop reading its input until it does.
            self.forget(descriptor)
            self.listen(child.input, lambda: self.feed_on(child, listener), select.EPOLLOUT)

    def feed_on(self, child: Child, listener: socket.socket) -> None:
        if child.feed(b""):
            self.forget(child.input)
            if listener in child.attached:
                self.listen(listener.fileno(), lambda: self.feed(child, listener))

    def do_winsize(self, message: Message, _: list[int], answer: Callable[[Message], object]) -> None:
        child = self.children.get(message["id"])
        if child is not None and child.terminal >= 0:
            size = struct.pack("HHHH", message["rows"], message["columns"], 0, 0)
            fcntl.ioctl(child.terminal, termios.TIOCSWINSZ, size)
        answer({})

    def do_forget(self, message: Message, _: list[int], answer: Callable[[Message], object]) -> None:
        child = self.children.get(message["id"])
        if child is not None and child.pid not in self.by_pid:
            del self.children[child.id]
        answer({})

    def do_forget_pod(self, message: Message, _: list[int], answer: Callable[[Message], object]) -> None:
        for child in [item for item in self.by_pid.values() if item.pod == message["uid"]]:
            # A process about to exec has not joined its cgroup yet, so the agent's kill did not reach it.
            child.signal(signal.SIGKILL)
        self.namespaces.forget(message["uid"])
        answer({})

    def do_list(self, _message: Message, _: list[int], answer: Callable[[Message], object]) -> None:
        answer({"running": [child.id for child in self.by_pid.values()]})

    # --- processes

    def keep(self, child: Child) -> None:
        self.children[child.id] = child
        self.by_pid[child.pid] = child
        self.follow(child)

    def follow(self, child: Child) -> None:
        for descriptor in child.readers:
            self.listen(descriptor, partial(self.pump, child, descriptor))

    def pump(self, child: Child, descriptor: int) -> None:
        if not child.pump(descriptor):
            self.forget(descriptor)

    def reap(self, woken: int) -> None:
        os.read(woken, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            key = self.execs.pop(pid, None)
            child = self.by_pid.get(pid)
            if key is not None:
                code = os.waitstatus_to_exitcode(status)
                self.send_event({"event": "exec", "key": key, "code": 128 - code if code < 0 else code})
            elif child is not None:
                self.ended(child, status)

    def ended(self, child: Child, status: int | None) -> None:
        """`status` as returned by wait; None if the process was a child of a dead keeper, and its status is lost."""
        if child.id in self.starting:
            self.starting[child.id]()
        if child.spec["host_pid"] or child.spec["share_pid"] or child.spec.get("targeted"):
            child.kill_leftovers()
        for descriptor in [
            *child.readers,
            *(listener.fileno() for listener in child.attached),
            child.pidfd,
            child.input,
        ]:
            self.forget(descriptor)
        del self.by_pid[child.pid]
        if "failed" in child.state:
            child.record_end(128, "StartError", child.state.pop("failed"))
        elif status is None:
            child.record_end(137, "ContainerStatusUnknown", "the container ended unobserved")
        else:
            child.finished(status)
        self.send_event({"event": "exited", "id": child.id, "pod": child.pod, "state": child.state})

    def adopt(self) -> None:
        """Takes over from a dead keeper: its containers keep running, and a pidfd reports their exit."""
        base = os.path.join(self.data_dir, "containers")
        for name in os.listdir(base):
            folder = os.path.join(base, name)
            state, spec = read_json(folder, "state.json"), read_json(folder, "launch.json")
            if not spec or not state.get("pid") or "exit_code" in state:
                continue
            child = Child(spec)
            child.pid, child.state = state["pid"], state
            alive = state["boot"] == boot_id() and start_ticks(child.pid) == state["start_ticks"]
            if alive:
                child.pidfd = os.pidfd_open(child.pid)
                child.reopen_streams()
            self.keep(child)
            if alive:
                self.listen(child.pidfd, partial(self.ended, child, None))
            else:
                self.ended(child, None)


def main(data_dir: str, ready: int) -> None:
    """Detaches from its parent (forks twice: init becomes the parent), takes the lock, serves."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.umask(0o022)
    os.chdir("/")
    linux.set_name("podfit-keeper")
    # Orphans of containers in the host's pid namespace are reparented to us, because init may not wait for them.
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    folder = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    lock = os.open(os.path.join(data_dir, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(ready, b"another keeper holds the lock")
        sys.exit(1)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(data_dir, SOCKET))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Bound through the folder's descriptor, because a socket's path may not be longer than 107 bytes.
    listener.bind(f"/proc/self/fd/{folder}/{SOCKET}")
    os.chmod(os.path.join(data_dir, SOCKET), 0o600)
    listener.listen(16)
    os.close(ready)
    Keeper(data_dir).serve(listener)
