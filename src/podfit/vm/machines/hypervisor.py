"""The connection to libvirt: opens it, provides VMs, delivers events, and reconnects when a daemon comes back.

Calls of libvirt block, so each runs in a thread. With libvirt in this process, a VM starts in a thread that has entered
the pod's cgroup and network namespace first, because QEMU inherits both. A libvirt daemon starts QEMU among its own
processes; it is moved to its cgroup afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import libvirt

from podfit.kit.concurrency.tasks import Tasks
from podfit.vm.machines import folder
from podfit.vm.machines.events import Event, Events, run_loop
from podfit.vm.machines.process import Orphans, Processes, become_subreaper
from podfit.vm.machines.queries import Queries, Unanswered

log = logging.getLogger(__name__)
Result = TypeVar("Result")
THREADS = 16
RECONNECT_S = 0.5
LOCKED_S, RETRY_S = 30.0, 0.1
KEEPALIVE_S, KEEPALIVE_TRIES = 5, 3
"""A daemon that answers none of these messages is considered gone, although its socket is open."""


class LibvirtFailed(Exception):
    """libvirt refused a call or is gone; the message is libvirt's."""

    def __init__(self, message: str, code: int, source: int = 0) -> None:
        """`source`: the part of libvirt that raised it."""
        super().__init__(message)
        self.code, self._source = code, source

    @classmethod
    def by(cls, error: libvirt.libvirtError) -> LibvirtFailed:
        return cls(error.get_error_message() or str(error), error.get_error_code() or 0, error.get_error_domain() or 0)

    @property
    def gone(self) -> bool:
        """Whether the connection itself is lost."""
        lost = self.code == libvirt.VIR_ERR_INTERNAL_ERROR and self._source == libvirt.VIR_FROM_RPC
        return lost or self.code in (
            libvirt.VIR_ERR_RPC,
            libvirt.VIR_ERR_SYSTEM_ERROR,
            libvirt.VIR_ERR_INVALID_CONN,
            libvirt.VIR_ERR_NO_CONNECT,
        )

    @property
    def unanswered(self) -> bool:
        """Whether QEMU does not respond."""
        return bool(self.code == libvirt.VIR_ERR_OPERATION_TIMEOUT)

    @property
    def no_domain(self) -> bool:
        return bool(self.code == libvirt.VIR_ERR_NO_DOMAIN)

    @property
    def not_running(self) -> bool:
        return bool(self.code == libvirt.VIR_ERR_OPERATION_INVALID)


class Hypervisor:
    def __init__(self, root: Path, socket: str = "", accelerated: bool = False) -> None:
        """`socket`: of a libvirt daemon; without it the driver runs in this process, with its files in `root`."""
        self.root, self._socket, self.accelerated = root, socket, accelerated
        self.emulator = ""
        self.host_cpus = os.cpu_count() or 1
        self.processes = Processes()
        self._orphans = Orphans(self.processes)
        self._pool = ThreadPoolExecutor(THREADS, "libvirt")
        self._queries = Queries()
        self._connection: Any = None
        self._events: Events | None = None
        self._deliver: Callable[[Event], None] = lambda _event: None
        self._daemon = 0
        """The process ID of the daemon."""
        self._lost = asyncio.Event()
        self._tasks = Tasks("libvirt")
        self.returned: Callable[[], Awaitable[None]] | None = None
        """Called after every reconnection: VMs may have ended meanwhile."""

    @property
    def embedded(self) -> bool:
        return not self._socket

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={self._socket}" if self._socket else f"qemu:///embed?root={self.root}"

    @property
    def network_namespace(self) -> Path | None:
        """The daemon's network namespace, in which it starts QEMU."""
        return None if self.embedded else Path(f"/proc/{self._daemon}/ns/net")

    async def open(self, deliver: Callable[[Event], None]) -> None:
        """Connects to libvirt. Raises CannotRun or LibvirtFailed."""
        self.emulator = folder.emulator()
        if self.embedded:
            folder.check_user()
            become_subreaper()
        self._deliver = deliver
        run_loop()
        self.root = folder.prepare(self.root)
        if self.embedded:
            folder.forget_interrupted(self.root)
        await self._connect()
        if not self.embedded:
            self._tasks.start(self._keep_connected(), "libvirt connection")

    async def _connect(self) -> None:
        self._connection = await self._opened()
        try:
            self._events = Events(self._connection, self._deliver)
            if not self.embedded:
                self._lost.clear()
                self._daemon = _peer(self._socket)
                self._connection.setKeepAlive(KEEPALIVE_S, KEEPALIVE_TRIES)
                self._connection.registerCloseCallback(self._closed, asyncio.get_running_loop())
        except libvirt.libvirtError as error:
            raise LibvirtFailed.by(error) from error

    async def _opened(self) -> Any:
        """A runtime that is just exiting may still hold the lock of the libvirt in its process."""
        deadline = asyncio.get_running_loop().time() + LOCKED_S
        while True:
            try:
                return await self.call(libvirt.open, self.uri)
            except LibvirtFailed as error:
                locked = self.embedded and "pid file" in str(error)
                if not locked or asyncio.get_running_loop().time() > deadline:
                    raise
            await asyncio.sleep(RETRY_S)

    def _closed(self, _connection: Any, _reason: int, loop: Any) -> None:
        """Called in libvirt's thread when the connection is closed."""
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._lost.set)

    async def _keep_connected(self) -> None:
        while True:
            await self._lost.wait()
            log.warning("the libvirt daemon at %s is gone; its VMs keep running", self._socket)
            await self.call(self._close_connection)
            await self._reconnect()
            log.warning("the libvirt daemon at %s is back", self._socket)

    async def _reconnect(self) -> None:
        while True:
            try:
                await self._connect()
                if self.returned is not None:
                    await self.returned()
                return
            except (LibvirtFailed, OSError) as error:
                log.debug("%s: %s", self._socket, error)
                await self.call(self._close_connection)
            await asyncio.sleep(RECONNECT_S)

    def _close_connection(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(libvirt.libvirtError):
                connection.unregisterCloseCallback()
            try:
                connection.close()
            except libvirt.libvirtError as error:
                log.debug("closing libvirt: %s", error)

    async def close(self, vms_left: bool = True) -> None:
        await self._tasks.stop()
        self.processes.close()
        await self.call(self._close_connection)
        self._pool.shutdown(wait=False, cancel_futures=True)
        if not vms_left:
            folder.forget(self.root)

    async def alive(self) -> bool:
        try:
            return bool(await self.call(lambda: self._connection is not None and self._connection.isAlive()))
        except LibvirtFailed:
            return False

    async def version(self) -> tuple[int, int]:
        """The versions of libvirt and of QEMU."""
        return await self.call(lambda: (self._open().getLibVersion(), self._open().getVersion()))

    async def call(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Runs a blocking call in a thread; libvirt's errors become LibvirtFailed."""

        def guarded() -> Result:
            try:
                with self._orphans.reaped():
                    return work(*arguments)
            except libvirt.libvirtError as error:
                raise LibvirtFailed.by(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._pool, guarded)

    async def define(self, xml: str) -> None:
        await self.call(lambda: self._open().defineXML(xml))

    async def names(self) -> dict[str, str]:
        """The names of all domains, by UUID."""
        return await self.call(lambda: {vm.UUIDString(): vm.name() for vm in self._open().listAllDomains()})

    async def on(self, uuid: str, work: Callable[[Any], Result]) -> Result:
        """Runs `work` with the libvirt domain, in a thread."""
        return await self.call(lambda: work(self._open().lookupByUUIDString(uuid)))

    async def query(self, uuid: str, work: Callable[[Any], Result]) -> Result:
        """Like `on`, for a call that QEMU answers without a change."""
        try:
            return await self._queries.ask(uuid, lambda: self.on(uuid, work))
        except Unanswered as error:
            raise LibvirtFailed(str(error), libvirt.VIR_ERR_OPERATION_TIMEOUT) from error

    def _open(self) -> Any:
        """Raises LibvirtFailed while the daemon is down."""
        if self._connection is None:
            raise LibvirtFailed(f"the libvirt daemon at {self._socket} is not running", libvirt.VIR_ERR_NO_CONNECT)
        return self._connection

    def pid_file(self, name: str) -> Path:
        """The path of QEMU's pid file as the daemon sees it, which may be in the daemon's own mount namespace."""
        base = self.root if self.embedded else Path(f"/proc/{self._daemon}/root") / "run/libvirt"
        return base / ("run/qemu" if self.embedded else "qemu") / f"{name}.pid"


def _peer(path: str) -> int:
    """The pid of the process that listens on a unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.connect(path)
        size = struct.calcsize("3i")
        pid, _, _ = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(pid)
