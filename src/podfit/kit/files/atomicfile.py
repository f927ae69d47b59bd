"""Replaces a file atomically and durably.

Writes to a temporary name, fsync, rename, fsync the folder. The order matters: a rename that reaches the disk before
the data would leave an empty file.
"""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, data: bytes, mode: int = 0o600, durable: bool = True) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        _write(temporary, data, mode, durable)
    except OSError:
        # A partial file would use space that a full disk does not have.
        temporary.unlink(missing_ok=True)
        raise
    os.replace(temporary, path)
    if durable:
        sync_folder(path.parent)


def write_again(path: Path, data: bytes, mode: int = 0o600, durable: bool = True) -> None:
    """Writes a small file that can be recreated: it is not written if unchanged, and overwritten in place on a full
    disk.
    """
    try:
        before = path.read_bytes()
    except OSError:
        before = None
    if before == data:
        return
    try:
        write_atomic(path, data, mode, durable)
    except OSError:
        if before is None:
            raise
        with path.open("r+b") as file:
            file.write(data)
            file.truncate()


def _write(path: Path, data: bytes, mode: int, durable: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
