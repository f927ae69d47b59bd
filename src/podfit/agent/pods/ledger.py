"""The ledger on disk: the allocated and actuated sizes of every pod, in one file of lines.

Callers act on an allocation only once it is on disk. An actuated size may reach the disk a little later, because
repeating a step is harmless and the agent compares the ledger with the kernel when it starts. Changes are appended: one
fdatasync for all that arrive together, and no rename, which costs three times as much. When most lines are outdated,
the file is replaced as a whole. Space for some hundred lines is reserved behind its end, for a disk that is full.

    {"sum":<CRC-32 of the entry>,"entry":{"version":1}}
    {"sum":…,"entry":{"uid":"…","allocated":{"containers":{"c":{"limits":{…},"requests":{…}}},"pod":null}}}
    {"sum":…,"entry":{"uid":"…","actuated":{…},"restarting":{"c":"<id of the container that is ended for a resize>"}}}
    {"sum":…,"entry":{"uid":"…","gone":true}}

A last line without its end was being written when the machine lost power: it was never acted on and is dropped. A file
with any other damage is set aside, and everything is rebuilt from the API and the kernel.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from podfit.api.resize.states import Actuated, Allocated, Resources
from podfit.kit.concurrency.inline_calls import InlineCalls
from podfit.kit.files.atomicfile import sync_folder, write_atomic
from podfit.kit.files.preallocation import preallocate
from podfit.kit.process.oserrors import system_words

log = logging.getLogger(__name__)

VERSION = 1
_COMPACT_BYTES = 1 << 20
_RESERVE_BYTES = 256 << 10
_SOON_S = 0.02
_NONE = Actuated()


class CorruptLedger(Exception):
    """The file cannot be trusted; the message gives the cause."""


_encode = msgspec.json.Encoder().encode


def _line(entry: dict[str, Any]) -> bytes:
    text = _encode(entry)
    return b'{"sum":%d,"entry":%s}\n' % (zlib.crc32(text), text)


_HEADER = _line({"version": VERSION})


class Ledger:
    def __init__(self, path: Path, durable: bool = True) -> None:
        self.path = path
        self._durable = durable
        self._allocated: dict[str, Allocated] = {}
        self._actuated: dict[str, Actuated] = {}
        self._restarting: dict[str, dict[str, str]] = {}
        self._changed: dict[tuple[str, str], None] = {}
        """(kind, uid) of entries that are not in the file yet, in order."""
        self._promised: set[str] = set()
        """Pods whose newest allocation is not on disk yet, and must not be acted on."""
        self._writing: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._inline = InlineCalls()
        self._file = -1
        self.problem = ""
        """The reason why the last write failed, or the next one may; "" if no problem is known."""
        self._held = 0
        """The file can grow up to this size even if the disk is full."""
        self._end = 0
        """The position of the next line; anything behind it is left over from a failed write."""

    # --- reading
    def allocated(self, uid: str) -> Allocated | None:
        return self._allocated.get(uid)

    def actuated(self, uid: str) -> Actuated:
        return self._actuated.get(uid, _NONE)

    def restarting(self, uid: str) -> Mapping[str, str]:
        """Containers that were stopped for a resize and have to be restarted: name → id of the one that was stopped."""
        return self._restarting.get(uid, {})

    def is_durable(self, uid: str) -> bool:
        """Whether the pod's allocation may be acted on."""
        return uid not in self._promised

    def uids(self) -> set[str]:
        return self._allocated.keys() | self._actuated.keys() | self._restarting.keys()

    # --- changing: in memory at once, on disk with the next `flush`
    def allocate(self, uid: str, sizes: Allocated) -> None:
        if self._allocated.get(uid) != sizes:
            self._allocated[uid] = sizes
            self._promised.add(uid)
            self._changed["allocated", uid] = None

    def actuate(self, uid: str, container: str, resources: Resources) -> None:
        known = self.actuated(uid)
        if known.containers.get(container) != resources:
            self._actuated[uid] = Actuated({**known.containers, container: resources}, known.pod)
            self._changed["actuated", uid] = None

    def actuate_pod(self, uid: str, resources: Resources | None) -> None:
        known = self.actuated(uid)
        if known.pod != resources:
            self._actuated[uid] = Actuated(known.containers, resources)
            self._changed["actuated", uid] = None

    def restart(self, uid: str, containers: Mapping[str, str]) -> None:
        """Stored in the line of the actuated size, so that an agent that does not know restarts can still read it."""
        if self._restarting.get(uid, {}) == containers:
            return
        self._restarting.pop(uid, None)
        if containers:
            self._restarting[uid] = dict(containers)
        self._changed["actuated", uid] = None

    def forget(self, uid: str) -> None:
        self._drop(uid)
        self._promised.discard(uid)
        for kind in ("allocated", "actuated"):
            self._changed.pop((kind, uid), None)
        self._changed["gone", uid] = None

    # --- to the disk
    async def flush(self) -> None:
        """Returns once everything changed so far is on disk. Raises OSError when it cannot be written."""
        if not self._durable:
            self._write_now()
            return
        if self._writing is not None:
            # A write in progress may lack the latest change; the next write includes it, whatever other tasks change
            # meanwhile.
            await asyncio.shield(self._writing)
        if self._changed and self._writing is None:
            self._writing = asyncio.ensure_future(self._write_soon())
        if self._writing is not None:
            await asyncio.shield(self._writing)

    def flush_soon(self) -> None:
        """Writes the changes in a moment, without waiting: together with other changes, or alone.

        An error is logged, and the next flush tries again.
        """
        if not self._durable:
            self._write_now()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(_SOON_S, self._flush_late)

    def _flush_late(self) -> None:
        self._later = None
        if self._changed and self._writing is None:
            self._writing = asyncio.ensure_future(self._write_soon())
            self._writing.add_done_callback(_log_failure)

    async def _write_soon(self) -> None:
        # Waits for one iteration of the event loop: changes made in the same iteration share this write.
        await asyncio.sleep(0)
        changed, promised = self._changed, set(self._promised)
        data = self._next_data()
        self._changed = {}
        try:
            if self._inline.in_place():
                began = time.perf_counter()
                self._write(*data)
                self._inline.took(time.perf_counter() - began)
            else:
                await asyncio.get_running_loop().run_in_executor(None, self._write, *data)
            # Keeps those whose allocation changed while the file was being written.
            self._promised -= promised - {uid for kind, uid in self._changed if kind == "allocated"}
        except OSError:
            # Keeps the order of the last change: a renewed allocation must not be followed by the removal of the old
            # one.
            self._changed = {key: None for key in changed if key not in self._changed} | self._changed
            raise
        finally:
            self._writing = None

    def _write_now(self) -> None:
        if self._changed:
            self._write(*self._next_data())
            self._changed = {}
            self._promised.clear()

    def _next_data(self) -> tuple[bytes, bytes]:
        """The lines to append and, if there is no file or most of it is outdated, a complete new one."""
        lines = b"".join([_line(entry) for entry in self._entries(self._changed)])
        if self._file >= 0 and (self._end <= _COMPACT_BYTES or self._end <= 4 * self._live_bytes()):
            return lines, b""
        keys = [("allocated", uid) for uid in self._allocated]
        keys += [("actuated", uid) for uid in self._actuated.keys() | self._restarting.keys()]
        return lines, _HEADER + b"".join([_line(entry) for entry in self._entries(keys)])

    def _entries(self, keys: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        for kind, uid in keys:
            if kind == "gone":
                yield {"uid": uid, "gone": True}
            elif kind == "allocated" and uid in self._allocated:
                yield {"uid": uid, "allocated": self._allocated[uid]}
            elif kind == "actuated" and (uid in self._actuated or uid in self._restarting):
                yield self._actuated_entry(uid)

    def _actuated_entry(self, uid: str) -> dict[str, Any]:
        entry: dict[str, Any] = {"uid": uid, "actuated": self.actuated(uid)}
        if uid in self._restarting:
            entry["restarting"] = self._restarting[uid]
        return entry

    def _write(self, lines: bytes, whole: bytes) -> None:
        """Runs in a thread if the disk is slow."""
        try:
            if not whole or not self._replaced(whole):
                self._append(lines)
        except OSError as error:
            self.problem = system_words(error)
            raise
        self._hold()

    def _replaced(self, whole: bytes) -> bool:
        """Replaces the file. False if there is no space for a second file: the existing one keeps growing."""
        try:
            write_atomic(self.path, whole, durable=self._durable)
        except OSError:
            if self._file < 0:
                raise
            return False
        self._open(len(whole))
        return True

    def _hold(self) -> None:
        """Reserves space for future allocations, so that pods can be stopped and shrunk on a full disk."""
        if not self._durable or (self._held - self._end > _RESERVE_BYTES // 2 and not self.problem):
            self.problem = ""
            return
        try:
            preallocate(self._file, self._end, _RESERVE_BYTES)
        except OSError as error:
            self.problem = system_words(error)
            return
        self._held, self.problem = self._end + _RESERVE_BYTES, ""

    def check(self) -> str:
        """The reason why the next write may fail; "" if no problem is known."""
        if self.problem and self._file >= 0 and self._writing is None:
            self._hold()
        return self.problem

    def _append(self, data: bytes) -> None:
        try:
            rest, at = data, self._end
            while rest:
                count = os.pwrite(self._file, rest, at)
                rest, at = rest[count:], at + count
            if self._durable:
                os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            self._held = 0
            raise
        self._end += len(data)

    def _live_bytes(self) -> int:
        return 400 * (len(self._allocated) + len(self._actuated))

    def _open(self, end: int) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        self._end, self._held = end, 0

    def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # --- from the disk
    def load(self) -> bool:
        """Reads the file; False if it does not exist or had to be set aside."""
        try:
            end = self._read(self.path.read_bytes())
        except FileNotFoundError:
            return False
        except (CorruptLedger, OSError) as problem:
            self._set_aside(problem)
            return False
        self._open(end)
        if os.fstat(self._file).st_size > end:
            os.ftruncate(self._file, end)
        self._hold()
        return True

    def _read(self, text: bytes) -> int:
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            log.warning("the last line of the ledger %s was never finished: dropped", self.path)
        entries = [_verified(line) for line in whole.splitlines()]
        if not entries or entries[0].get("version") != VERSION:
            raise CorruptLedger("it does not begin with a version this agent knows")
        try:
            for entry in entries[1:]:
                self._apply(entry)
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptLedger(f"an entry is malformed: {error!r}") from error
        return len(whole)

    def _apply(self, entry: dict[str, Any]) -> None:
        uid = entry["uid"]
        if entry.get("gone"):
            self._drop(uid)
        elif sizes := entry.get("allocated"):
            self._allocated[uid] = Allocated(dict(sizes["containers"]), sizes["pod"])
        else:
            sizes = entry["actuated"]
            self._actuated[uid] = Actuated(dict(sizes["containers"]), sizes["pod"])
            self._restarting.pop(uid, None)
            if marks := entry.get("restarting"):
                self._restarting[uid] = dict(marks)

    def _drop(self, uid: str) -> None:
        for kept in (self._allocated, self._actuated, self._restarting):
            kept.pop(uid, None)

    def _set_aside(self, problem: Exception) -> None:
        self._allocated, self._actuated, self._restarting = {}, {}, {}
        aside = self.path.with_name(f"{self.path.name}.corrupt-{self.path.stat().st_mtime_ns}")
        os.replace(self.path, aside)
        sync_folder(self.path.parent)
        log.error("the ledger %s is unusable (%s): set aside as %s, rebuilding", self.path, problem, aside)


def _verified(line: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(line)
        expected, entry = document["sum"], document["entry"]
    except (msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise CorruptLedger(f"not a line of a ledger: {error}") from error
    if zlib.crc32(_encode(entry)) != expected or not isinstance(entry, dict):
        raise CorruptLedger("a checksum does not match")
    return entry


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the ledger could not be written: %s", error)
