"""Resolves paths safely in folders that a container can change meanwhile: a volume, a root file system.

A path that is checked first and used later may change its target in between (CVE-2021-25741). So the kernel resolves it
(openat2(2), Linux 5.6) below a folder, and from then on the descriptor is used, never the path again. Imported by the
keeper, so it must not import much.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from .linux import checked, libc

_SYS_OPENAT2 = 437
_NO_MAGICLINKS, _BENEATH, _IN_ROOT = 0x02, 0x08, 0x10
_TRIES = 64


def open_beneath(folder: int, path: str, flags: int = os.O_PATH) -> int:
    """A descriptor of the file. A link that leads out of the folder fails with EXDEV."""
    return _open(folder, path, flags, _BENEATH)


def open_inside(root: int, path: str, flags: int = os.O_PATH) -> int:
    """Opens a file as a process whose root is the folder would: absolute links and `..` stay inside."""
    return _open(root, path, flags, _IN_ROOT)


def _open(folder: int, path: str, flags: int, resolve: int) -> int:
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, 0, resolve | _NO_MAGICLINKS)
    for _ in range(_TRIES):
        found = libc.syscall(_SYS_OPENAT2, folder, os.fsencode(path or "."), how, ctypes.c_size_t(len(how)))
        # EAGAIN: a file was renamed during the resolution, which has to be repeated.
        if found >= 0 or ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            return checked(found, f"open {path}")
    raise OSError(errno.EAGAIN, f"open {path}: it keeps changing")


def make_folders(root: int, path: str, mode: int, inside: bool, links: int = 40) -> int:
    """Creates the missing folders of a path and opens the last. `inside`: links are followed as in a root, also those
    whose target is missing."""
    walk = open_inside if inside else open_beneath
    here, done = walk(root, "."), ""
    for part in (part for part in path.split("/") if part and part != "."):
        ahead = f"{done}/{part}" if done else part
        try:
            there = walk(root, ahead)
        except FileNotFoundError:
            if inside and links and (target := _link(here, part)):
                there = make_folders(
                    root, target if target.startswith("/") else f"{done}/{target}", mode, True, links - 1
                )
            else:
                os.mkdir(part, mode, dir_fd=here)
                there = walk(root, ahead)
                _set_mode(here, part, mode)
        os.close(here)
        here, done = there, ahead
    return here


def make_file(root: int, path: str) -> int:
    """Opens a file below a root; creates an empty file if it is missing."""
    try:
        return open_inside(root, path)
    except FileNotFoundError:
        folder, _, name = path.rstrip("/").rpartition("/")
        parent = make_folders(root, folder, 0o755, True)
        try:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=parent))
        finally:
            os.close(parent)
        return open_inside(root, path)


def _link(parent: int, name: str) -> str:
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError:
        return ""


def _set_mode(parent: int, name: str, mode: int) -> None:
    """Sets the bits that the umask removed."""
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.fchmod(made, mode)
    finally:
        os.close(made)


def path_of(descriptor: int) -> str:
    """A path to the descriptor's file, for calls that take no descriptor."""
    return f"/proc/self/fd/{descriptor}"
