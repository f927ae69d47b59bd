"""The node's promises on disk: allocated and actuated sizes of every pod, in one file.

A promise (allocated) is awaited until it is durable before anyone acts on it; what was actuated may reach the disk a
little later, because repeating a step is harmless and the start compares it with the kernel. Changes that come
together share one fsync. A file that cannot be read is set aside and everything is rebuilt from the API and the kernel.

    {"version": 1, "checksum": <CRC-32 of data>, "data": {"allocated": {uid: entry}, "actuated": {uid: entry}}}
    entry = {"containers": {name: {"limits": {…}, "requests": {…}}}, "pod": {…} | null}
"""

from __future__ import annotations

import asyncio
import logging
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from podfit.agent.decide.states import Actuated, Allocated, Resources
from podfit.kit.atomicfile import write_atomic

log = logging.getLogger(__name__)

VERSION = 1
_encode = msgspec.json.encode


class CorruptLedger(Exception):
    """The file cannot be trusted; the message says why."""


def checksum(data: bytes) -> int:
    return zlib.crc32(data)


def _entry(sizes: Allocated | Actuated) -> dict[str, Any]:
    return {"containers": dict(sizes.containers), "pod": sizes.pod}


class Ledger:
    def __init__(self, path: Path, durable: bool = True, before_write: Callable[[bytes], None] | None = None) -> None:
        self.path = path
        self._durable = durable
        self._observe = before_write
        self._allocated: dict[str, Allocated] = {}
        self._actuated: dict[str, Actuated] = {}
        self._changed = False
        self._promised: set[str] = set()
        """Pods whose newest allocation is not on disk yet."""
        self._writing: asyncio.Task[None] | None = None
        self._written = b""

    # --- reading
    def allocated(self, uid: str) -> Allocated | None:
        return self._allocated.get(uid)

    def actuated(self, uid: str) -> Actuated:
        return self._actuated.get(uid, _NONE)

    def is_durable(self, uid: str) -> bool:
        """Whether the pod's promise may be acted on."""
        return uid not in self._promised

    def uids(self) -> set[str]:
        return self._allocated.keys() | self._actuated.keys()

    # --- changing: in memory at once, on disk with the next `flush`
    def allocate(self, uid: str, sizes: Allocated) -> None:
        if self._allocated.get(uid) != sizes:
            self._allocated[uid] = sizes
            self._promised.add(uid)
            self._changed = True

    def actuate(self, uid: str, container: str, resources: Resources) -> None:
        known = self.actuated(uid)
        if known.containers.get(container) != resources:
            self._actuated[uid] = Actuated({**known.containers, container: resources}, known.pod)
            self._changed = True

    def actuate_pod(self, uid: str, resources: Resources | None) -> None:
        known = self.actuated(uid)
        if known.pod != resources:
            self._actuated[uid] = Actuated(known.containers, resources)
            self._changed = True

    def forget(self, uid: str) -> None:
        """Not written by itself: an entry too many does no harm and goes with the next change."""
        self._allocated.pop(uid, None)
        self._promised.discard(uid)
        self._actuated.pop(uid, None)

    # --- disk
    async def flush(self) -> None:
        """Returns once everything changed so far is on disk. Raises OSError when it cannot be written."""
        if not self._durable:
            self._write_now()
            return
        while self._changed or self._writing is not None:
            if self._writing is None:
                self._writing = asyncio.ensure_future(self._write_soon())
            await asyncio.shield(self._writing)

    def flush_soon(self) -> None:
        """The same without waiting; an error is logged and the next flush tries again."""
        if not self._durable:
            self._write_now()
        elif self._changed and self._writing is None:
            self._writing = asyncio.ensure_future(self._write_soon())
            self._writing.add_done_callback(_log_failure)

    async def _write_soon(self) -> None:
        # One turn of the loop lets whoever changes something in the same moment share this write.
        await asyncio.sleep(0)
        try:
            data, promised = self._data(), set(self._promised)
            self._changed = False
            await asyncio.get_running_loop().run_in_executor(None, self._write, data)
            self._promised -= promised
        except OSError:
            self._changed = True
            raise
        finally:
            self._writing = None

    def _write_now(self) -> None:
        if self._changed:
            self._write(self._data())
            self._changed = False
            self._promised.clear()

    def _data(self) -> bytes:
        return _encode(
            {
                "allocated": {uid: _entry(sizes) for uid, sizes in self._allocated.items()},
                "actuated": {uid: _entry(sizes) for uid, sizes in self._actuated.items()},
            }
        )

    def _write(self, data: bytes) -> None:
        if self._observe is not None:
            self._observe(data)
        if data == self._written:
            return
        head = f'{{"version":{VERSION},"checksum":{checksum(data)},"data":'.encode()
        write_atomic(self.path, head + data + b"}\n", durable=self._durable)
        self._written = data

    def load(self) -> bool:
        """Reads the file; False when there is none or it had to be set aside."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return False
        try:
            data = _verified(text)
        except CorruptLedger as problem:
            aside = self.path.with_name(f"{self.path.name}.corrupt-{os.getpid()}-{self.path.stat().st_mtime_ns}")
            os.replace(self.path, aside)
            log.error("the ledger %s is unusable (%s): set aside as %s, rebuilding", self.path, problem, aside)
            return False
        self._allocated = {uid: Allocated(one["containers"], one["pod"]) for uid, one in data["allocated"].items()}
        self._actuated = {uid: Actuated(one["containers"], one["pod"]) for uid, one in data["actuated"].items()}
        return True


_NONE = Actuated()


def _verified(text: bytes) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(text)
        version, expected, data = document["version"], document["checksum"], document["data"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise CorruptLedger(f"not a ledger: {error}") from error
    if version != VERSION:
        raise CorruptLedger(f"version {version}, this agent writes {VERSION}")
    if checksum(_encode(data)) != expected:
        raise CorruptLedger("the checksum does not match")
    try:
        for one in (*data["allocated"].values(), *data["actuated"].values()):
            one["containers"].items(), one["pod"]
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptLedger(f"an entry is malformed: {error!r}") from error
    return data  # type: ignore[no-any-return]


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the ledger could not be written: %s", error)
