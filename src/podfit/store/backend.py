"""The interface of every store and its contract. One test suite (tests/contract/test_store.py) runs against all stores.

A store maps keys to bytes, and every change has a revision, one higher than the change before. Reads are served
synchronously from a view in this process; writes return once they are durable *and* visible in the view. A change that
`put` or `delete` returned survives kill -9 and power loss (except in the memory store).

Records and changes are created by the thousand and retained by the ten thousand; they cannot be part of a cycle, so the
garbage collector need not track them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec


class StoreError(Exception):
    """The base class of store errors."""


class Mismatch(StoreError):
    """The key is not at the revision that the writer expected; nothing was written."""

    def __init__(self, current: Record | None) -> None:
        super().__init__("the key was changed by someone else")
        self.current = current


class Compacted(StoreError):
    """The requested revision has been compacted."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history before revision {oldest} is gone")
        self.oldest = oldest


class FutureRevision(StoreError):
    """The requested revision lies in the future."""

    def __init__(self, current: int) -> None:
        super().__init__(f"the newest revision is {current}")
        self.current = current


class Lagging(StoreError):
    """The buffer of a slow watcher overflowed and was dropped; it has to start again from a list."""


class Unusable(StoreError):
    """The store cannot be opened: corrupt, written by a newer version, or held by another process."""


class Unavailable(StoreError):
    """The store cannot be reached or written now (etcd unreachable, disk full); nothing was acknowledged."""


class Record(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: bytes
    created: int
    """The revision at which the key was created."""
    modified: int
    """The revision of its last change: Kubernetes' resourceVersion."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One change of the store. `record` is the new record of the key, None after a deletion."""

    revision: int
    key: str
    record: Record | None
    previous: Record | None


class Watch(Protocol):
    """Changes below a prefix, each once, in order. Close it when done."""

    def __aiter__(self) -> AsyncIterator[Change]: ...

    async def next(self) -> Change:
        """Waits for the next change; raises Lagging when the buffer overflowed, StopAsyncIteration when closed."""

    def next_nowait(self) -> Change | None:
        """The next change if one is available."""

    def close(self) -> None: ...


class Store(Protocol):
    async def open(self) -> None: ...

    async def close(self) -> None: ...

    @property
    def revision(self) -> int:
        """The newest revision visible in this process's view. A fresh store starts at 1."""

    @property
    def compacted(self) -> int:
        """The oldest revision still readable with `scan_at` and watchable from."""

    @property
    def problem(self) -> str:
        """The reason why the store cannot be written now; "" if it can."""

    async def sync(self) -> int:
        """Waits until the view contains every write acknowledged anywhere before the call; returns its revision."""

    async def wait_for(self, revision: int, timeout_s: float) -> bool:
        """Waits until the view has reached `revision`; False on timeout."""

    def get(self, key: str) -> Record | None: ...

    def scan(self, prefix: str, after: str = "", limit: int = 0) -> list[Record]:
        """Records below `prefix` in key order, starting after the key `after`, at most `limit` (0: all)."""

    def touched(self, folder: str) -> int:
        """A number that increases whenever a key directly below the folder (a prefix that ends in "/") changes."""

    def count(self, prefix: str, after: str = "") -> int: ...

    def count_at(self, revision: int, prefix: str, after: str = "") -> int:
        """The number of records that existed at `revision`; raises Compacted or FutureRevision."""

    def scan_at(self, revision: int, prefix: str, after: str = "", limit: int = 0) -> list[Record]:
        """The records as they were at `revision`, otherwise like `scan`; raises Compacted or FutureRevision."""

    async def put(self, key: str, value: bytes, expect: int | None = None, ttl_s: float = 0) -> Record:
        """Writes a record. `expect` 0: the key must not exist; n: it must be at revision n; None: unconditionally.

        `ttl_s` > 0 expires the key after that time (Events). Raises Mismatch, Unavailable.
        """

    async def delete(self, key: str, expect: int | None = None) -> Change:
        """Deletes a record; raises Mismatch(None) if the key does not exist."""

    def watch(self, prefix: str, after: int, buffer: int = 4096) -> Watch:
        """Watches changes below `prefix` with a revision above `after`; raises Compacted, FutureRevision."""

    async def compact(self, revision: int) -> None:
        """Compacts history before `revision`; current records remain."""
