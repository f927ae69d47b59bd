"""The gRPC server of the VM runtime, on a unix socket that only its owner may use."""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from podfit.cri.migrations import migration_handler
from podfit.cri.services import IMAGE, OPTIONS, RUNTIME, handler
from podfit.images.store import IMAGES
from podfit.podnet.network import AUTO
from podfit.vm.guest.images import Images
from podfit.vm.machines.hypervisor import Hypervisor
from podfit.vm.reach.network import Networks
from podfit.vm.runtime import Runtime
from podfit.vm.server.containers import Containers
from podfit.vm.server.imagecalls import ImageCalls
from podfit.vm.server.info import Info
from podfit.vm.server.migrations import Migrations
from podfit.vm.server.sandboxes import Sandboxes
from podfit.vm.server.stats import Stats
from podfit.vm.server.streaming.execs import Execs
from podfit.vm.server.streaming.streams import StreamServer


class SocketInUse(Exception):
    """Another process answers on the socket."""


class RuntimeCalls:
    """All calls of RuntimeService; each is served by its component."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> object:
        for part in self._parts:
            if (found := getattr(part, name, None)) is not None:
                return found
        raise AttributeError(name)


@dataclass(frozen=True)
class Settings:
    folder: Path
    socket: Path
    libvirt_socket: str = ""
    """The socket of a libvirt daemon; "": libvirt runs in this process."""
    accelerated: bool = False
    network: str = AUTO
    libvirt_folder: Path | None = None
    """The folder of libvirt in this process, of which there can be only one; default: below `folder`."""
    images: Path | None = None
    """The image store; default: below `folder`."""
    insecure_registries: tuple[str, ...] = ()
    migration_uri: str = ""
    """The URI at which other hosts reach the libvirt daemon; "": only this machine can, by its socket."""
    archives: tuple[Path, ...] = ()
    """Image archives to load at the start."""


class Server:
    def __init__(self, settings: Settings) -> None:
        self._settings, self._path = settings, settings.socket
        libvirt = settings.libvirt_folder or settings.folder / "libvirt"
        hypervisor = Hypervisor(libvirt, settings.libvirt_socket, settings.accelerated)
        mark = hashlib.sha256(str(settings.folder.absolute()).encode()).hexdigest()[:8]
        images = Images(settings.images or settings.folder / IMAGES, f"vm-{mark}", settings.insecure_registries)
        networks = Networks(settings.folder / "network", settings.network, lambda: hypervisor.network_namespace)
        self.runtime = Runtime(settings.folder, hypervisor, images, networks, settings.migration_uri)
        self._server = grpc.aio.server(options=OPTIONS)
        self._streams = StreamServer()
        self._opened = False

    async def start(self) -> None:
        """Starts to serve. Raises SocketInUse, and the errors of opening the runtime."""
        _clear(self._path)
        await self.runtime.open()
        self._opened = True
        self.runtime.images.open(self._settings.archives, self.runtime.records.containers)
        runtime = self.runtime
        await self._streams.start()
        execs = Execs(runtime, self._streams)
        calls = RuntimeCalls(Info(runtime), Sandboxes(runtime), Containers(runtime), execs, Stats(runtime))
        self._server.add_generic_rpc_handlers(
            (
                handler(RUNTIME, calls),
                handler(IMAGE, ImageCalls(runtime.images)),
                migration_handler(Migrations(runtime)),
            )
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        before = os.umask(0o177)
        try:
            if not self._server.add_insecure_port(f"unix://{self._path}"):
                raise SocketInUse(f"{self._path} cannot be listened on")
        finally:
            os.umask(before)
        await self._server.start()

    async def stop(self) -> None:
        """Stops the server. VMs keep running; the next start finds them."""
        if not self._opened:
            return
        await self._server.stop(1.0)
        await self._streams.stop()
        with suppress(OSError):
            self._path.unlink()
        self.runtime.images.close()
        await self.runtime.close()


def _clear(path: Path) -> None:
    """Removes the socket of a runtime that was killed, unless another process answers on it."""
    if not path.exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            return
    raise SocketInUse(f"{path} is in use by a process that answers on it")
