"""Named network namespaces: created, entered, removed. A bind mount below /run/netns keeps each one alive.

`ip netns` shows them there. A namespace belongs to a thread, so code that enters one runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

FOLDER = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_NS_GET_NSTYPE = 0xB703
_MS_BIND, _MNT_DETACH = 4096, 2

T = TypeVar("T")
# PyDLL keeps the interpreter lock: these calls are short, and reacquiring it can take longer than they do.
_libc = ctypes.PyDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


async def in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a thread of its own: a thread that changed its namespace must do nothing else afterwards."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)  # type: ignore[arg-type]

    def run() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = work()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            return  # the loop has ended, and with it the task that waited

    threading.Thread(target=run, name="podfit-netns", daemon=True).start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # Waits even when cancelled: the caller must find the work either done or not started, and it is short.
        await asyncio.gather(future, return_exceptions=True)
        raise


def create(path: Path) -> int:
    """Moves the calling thread into a new namespace and names it. Returns a descriptor of it."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    try:
        _checked(_libc.unshare(_CLONE_NEWNET), "unshare")
        own = f"/proc/{os.getpid()}/task/{threading.get_native_id()}/ns/net"
        _checked(_libc.mount(own.encode(), os.fsencode(path), b"none", ctypes.c_ulong(_MS_BIND), None), f"mount {path}")
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def enter(path: Path) -> None:
    """Moves the calling thread into the namespace."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(descriptor, _CLONE_NEWNET), f"setns {path}")
    finally:
        os.close(descriptor)


def exists(path: Path) -> bool:
    """Whether a namespace is mounted there: after a reboot, or a manual removal, at most an empty file remains."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return fcntl.ioctl(descriptor, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError:
        return False
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Removes the name of the namespace, which ends with the last process in it."""
    while _libc.umount2(os.fsencode(path), _MNT_DETACH) == 0:
        pass
    path.unlink(missing_ok=True)


async def socket_in(path: Path, family: socket.AddressFamily) -> socket.socket:
    """A TCP socket that belongs to the namespace; connections made with it start there."""

    def make() -> socket.socket:
        enter(path)
        return socket.socket(family, socket.SOCK_STREAM)

    return await in_thread(make)
