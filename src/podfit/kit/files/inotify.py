"""The kernel's inotify calls, which Python does not wrap. Used by `folderwatch`, and directly to watch single files."""

from __future__ import annotations

import ctypes
import os

IN_MODIFY = 0x2
# PyDLL keeps the interpreter lock: these calls are short, and releasing it would gain nothing in a single thread.
_libc = ctypes.PyDLL(None, use_errno=True)


def inotify_init() -> int:
    """A non-blocking descriptor that child processes do not inherit."""
    return _checked(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK), "inotify_init1")


def inotify_add_watch(descriptor: int, path: str, mask: int) -> int:
    return _checked(_libc.inotify_add_watch(descriptor, os.fsencode(path), mask), f"inotify_add_watch {path}")


def inotify_rm_watch(descriptor: int, watch: int) -> None:
    _libc.inotify_rm_watch(descriptor, watch)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
