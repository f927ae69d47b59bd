"""The connection to libvirt: opens it, hands out VMs, delivers events.

Calls of libvirt block, so each runs in a thread. A VM starts in a thread that has entered the pod's cgroup and network
namespace first, because QEMU inherits both.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import libvirt

from podfit.vm.machines import folder
from podfit.vm.machines.events import Event, Events, run_loop
from podfit.vm.machines.process import Orphans, Processes, become_subreaper

log = logging.getLogger(__name__)
Result = TypeVar("Result")
THREADS = 16


class LibvirtFailed(Exception):
    """libvirt refused a call or is gone; the message is libvirt's."""

    def __init__(self, error: libvirt.libvirtError) -> None:
        super().__init__(error.get_error_message() or str(error))
        self.code: int = error.get_error_code() or 0

    @property
    def gone(self) -> bool:
        """Whether the connection itself is lost."""
        return self.code in (libvirt.VIR_ERR_RPC, libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_INVALID_CONN)

    @property
    def no_domain(self) -> bool:
        return bool(self.code == libvirt.VIR_ERR_NO_DOMAIN)

    @property
    def not_running(self) -> bool:
        return bool(self.code == libvirt.VIR_ERR_OPERATION_INVALID)


class Hypervisor:
    def __init__(self, root: Path, socket: str = "", accelerated: bool = False) -> None:
        """`socket` names a libvirt daemon; without it the driver runs in this process, with its files in `root`."""
        self.root, self._socket, self.accelerated = root, socket, accelerated
        self.emulator = ""
        self.host_cpus = os.cpu_count() or 1
        self.processes = Processes()
        self._orphans = Orphans(self.processes)
        self._pool = ThreadPoolExecutor(THREADS, "libvirt")
        self._connection: Any = None
        self._events: Events | None = None
        self._deliver: Callable[[Event], None] = lambda _event: None

    @property
    def embedded(self) -> bool:
        return not self._socket

    async def open(self, deliver: Callable[[Event], None]) -> None:
        """Raises CannotRun or LibvirtFailed."""
        self.emulator = folder.emulator()
        if self.embedded:
            folder.check_user()
            become_subreaper()
        self._deliver = deliver
        run_loop()
        await self._connect()

    async def _connect(self) -> None:
        self.root = folder.prepare(self.root)
        uri = f"qemu+unix:///system?socket={self._socket}" if self._socket else f"qemu:///embed?root={self.root}"
        self._connection = await self.call(libvirt.open, uri)
        self._events = Events(self._connection, self._deliver)

    def _close_connection(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None
        if self._connection is not None:
            try:
                self._connection.close()
            except libvirt.libvirtError as error:
                log.debug("closing libvirt: %s", error)
            self._connection = None

    async def close(self) -> None:
        self.processes.close()
        await self.call(self._close_connection)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def alive(self) -> bool:
        try:
            return bool(await self.call(lambda: self._connection is not None and self._connection.isAlive()))
        except LibvirtFailed:
            return False

    async def version(self) -> tuple[int, int]:
        """Of libvirt and of QEMU."""
        return await self.call(lambda: (self._connection.getLibVersion(), self._connection.getVersion()))

    async def call(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Runs a blocking call in a thread; libvirt's errors become LibvirtFailed."""

        def guarded() -> Result:
            try:
                with self._orphans.reaped():
                    return work(*arguments)
            except libvirt.libvirtError as error:
                raise LibvirtFailed(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._pool, guarded)

    async def define(self, xml: str) -> None:
        await self.call(lambda: self._connection.defineXML(xml))

    async def names(self) -> dict[str, str]:
        """All domains: the name by UUID."""
        return await self.call(lambda: {vm.UUIDString(): vm.name() for vm in self._connection.listAllDomains()})

    async def on(self, uuid: str, work: Callable[[Any], Result]) -> Result:
        """Runs `work` with the libvirt domain, in a thread."""
        return await self.call(lambda: work(self._connection.lookupByUUIDString(uuid)))

    def pid_file(self, name: str) -> Path:
        base = self.root / "run/qemu" if self.embedded else Path("/run/libvirt/qemu")
        return base / f"{name}.pid"
