"""Checks the data directory: write permission, free space, and whether SQLite works reliably there."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from podfit.cli.checks import Finding, fail, ok, tried, warn
from podfit.cli.printing.amounts import memory_text
from podfit.kit.process.oserrors import system_words

LEAST_BYTES = 500 << 20
SLOW_FSYNC_S = 0.05
_NETWORKED = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph")


def _existing(folder: Path) -> Path:
    while not _there(folder):
        folder = folder.parent
    return folder


def _there(folder: Path) -> bool:
    """Whether the path exists. An unreadable one counts as existing: later checks report the missing permission."""
    try:
        return folder.exists()
    except PermissionError:
        return True


def writable(folder: Path) -> Finding:
    where = _existing(folder.absolute())
    try:
        with tempfile.NamedTemporaryFile(dir=where, prefix=".podfit-doctor-"):
            return ok("data directory", f"{folder} can be written")
    except OSError as error:
        return fail("data directory", f"{where}: {error.strerror}", "choose another with --data-dir, or make it yours")


def space(folder: Path, least: int = LEAST_BYTES) -> Finding:
    free = shutil.disk_usage(_existing(folder.absolute())).free
    if free < least:
        return fail("disk", f"{memory_text(free)} free", f"free some: the store and the logs want {memory_text(least)}")
    return ok("disk", f"{memory_text(free)} free")


def file_system(folder: Path, mounts: str | None = None) -> Finding:
    kind = _type_of(str(_existing(folder.absolute()).resolve()), mounts or Path("/proc/mounts").read_text())
    if kind in _NETWORKED:
        return fail("file system", f"{kind}: SQLite's log does not work there", "use a local disk for --data-dir")
    if kind in ("tmpfs", "ramfs"):
        return warn("file system", f"{kind}: gone at the next boot", "use a disk for --data-dir to keep the cluster")
    return ok("file system", kind or "unknown")


def _type_of(path: str, mounts: str) -> str:
    best, kind = "", ""
    for line in mounts.splitlines():
        words = line.split()
        if len(words) < 3:
            continue
        point = words[1]
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, words[2]
    return kind


def sqlite(folder: Path, version: tuple[int, ...] = sqlite3.sqlite_version_info) -> Finding:
    if version < (3, 35, 0):
        return fail(
            "sqlite", f"{'.'.join(map(str, version))} is too old", "use a Python built with SQLite 3.35 or newer"
        )
    try:
        with tempfile.TemporaryDirectory(dir=_existing(folder.absolute()), prefix=".podfit-doctor-") as place:
            database = sqlite3.connect(Path(place, "try.db"))
            mode = database.execute("pragma journal_mode=wal").fetchone()[0]
            database.execute("create table t (x)")
            database.close()
    except (OSError, sqlite3.Error) as error:
        return fail("sqlite", f"cannot be used: {system_words(error)}", "use a local disk for --data-dir")
    if mode != "wal":
        return fail("sqlite", f"no write-ahead log there ({mode})", "use a local disk for --data-dir")
    return ok("sqlite", f"{sqlite3.sqlite_version} with write-ahead log")


def fsync(folder: Path, slow_s: float = SLOW_FSYNC_S) -> Finding:
    """Measures the median time of an fsync: every acknowledged write waits for one."""
    try:
        with tempfile.TemporaryFile(dir=_existing(folder.absolute())) as file:
            times = []
            for _ in range(9):
                start = time.perf_counter()
                file.write(b"podfit")
                file.flush()
                os.fsync(file.fileno())
                times.append(time.perf_counter() - start)
    except OSError as error:
        return fail("fsync", system_words(error), "choose another --data-dir")
    median = sorted(times)[len(times) // 2]
    if median > slow_s:
        return warn("fsync", f"{median * 1000:.1f} ms: writes will be slow", "put --data-dir on a faster disk")
    return ok("fsync", f"{median * 1000:.2f} ms")


def keys(folder: Path) -> Finding:
    """Reports private keys that other users may read."""
    loose = [file.name for file in folder.rglob("*.key") if file.stat().st_mode & 0o077] if folder.is_dir() else []
    loose += (
        [file.name for file in folder.glob("*.kubeconfig") if file.stat().st_mode & 0o077] if folder.is_dir() else []
    )
    if loose:
        return fail("private keys", f"readable by others: {', '.join(loose)}", f"chmod 600 them in {folder}")
    return ok("private keys", "only readable by their owner" if folder.is_dir() else "none yet")


def all_storage_checks(folder: Path) -> Iterator[Finding]:
    for name, check in (
        ("data directory", writable),
        ("disk", space),
        ("file system", file_system),
        ("sqlite", sqlite),
        ("fsync", fsync),
        ("private keys", keys),
    ):
        yield tried(name, partial(check, folder))
