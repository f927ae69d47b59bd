"""The promise every store keeps. One contract suite (tests/contract/test_store.py) holds for all of them.

A store is a map from keys to bytes whose every change has a revision, one higher than the change before. Reads are
answered from a view in this process, synchronously; writes are awaited until they are durable *and* visible in the
view. What `put` or `delete` returned survives kill -9 and power loss (memory excepted, by its nature).

Records and changes are made by the thousand and kept by the ten thousand; they cannot be part of a cycle, so the
garbage collector need not know them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec


class StoreError(Exception):
    """Root of what a store may raise."""


class Mismatch(StoreError):
    """The key is not at the revision the writer expected; nothing was written."""

    def __init__(self, current: Record | None) -> None:
        super().__init__("the key was changed by someone else")
        self.current = current


class Compacted(StoreError):
    """The revision asked for is older than what is kept."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history before revision {oldest} is gone")
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision asked for lies in the future."""

    def __init__(self, current: int) -> None:
        super().__init__(f"the newest revision is {current}")
        self.current = current


class Lagging(StoreError):
    """A watcher fell so far behind that its buffer was dropped; it has to start again from a list."""


class Unusable(StoreError):
    """The store cannot be opened: corrupt, written by a newer version, or held by another process."""


class Unavailable(StoreError):
    """The store cannot be reached or written just now (etcd away, disk full); nothing was acknowledged."""


class Record(msgspec.Struct, frozen=True, gc=False):
    key: str
    value: bytes
    created: int
    """Revision at which the key came to be."""
    modified: int
    """Revision of its last change: what Kubernetes calls resourceVersion."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One entry of the log. `record` is what stands at the key after it, None after a deletion."""

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
        """The next change if there is one already."""

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
    def trouble(self) -> str:
        """Why the store cannot be written just now; "" while it can."""

    async def sync(self) -> int:
        """Waits until the view holds everything acknowledged anywhere before the call; returns its revision."""

    async def wait_for(self, revision: int, timeout_s: float) -> bool:
        """Waits until the view has reached `revision`; False when it did not in time."""

    def get(self, key: str) -> Record | None: ...

    def scan(self, prefix: str, after: str = "", limit: int = 0) -> list[Record]:
        """Records below `prefix` in key order, those behind the key `after`, at most `limit` (0: all)."""

    def touched(self, folder: str) -> int:
        """A number that grows when a key right below the folder (a prefix that ends in "/") changes."""

    def count(self, prefix: str, after: str = "") -> int: ...

    def count_at(self, revision: int, prefix: str, after: str = "") -> int:
        """The count as things stood at `revision`; raises Compacted or FutureRevision."""

    def scan_at(self, revision: int, prefix: str, after: str = "", limit: int = 0) -> list[Record]:
        """The same as things stood at `revision`; raises Compacted or FutureRevision."""

    async def put(self, key: str, value: bytes, expect: int | None = None, ttl_s: float = 0) -> Record:
        """Writes. `expect` 0: the key must not exist; n: it must stand at revision n; None: whatever is there.

        `ttl_s` > 0 lets the key vanish by itself after that time (Events). Raises Mismatch, Unavailable.
        """

    async def delete(self, key: str, expect: int | None = None) -> Change:
        """Deletes; Mismatch(None) when the key is not there."""

    def watch(self, prefix: str, after: int, buffer: int = 4096) -> Watch:
        """Changes below `prefix` with a revision above `after`; raises Compacted, FutureRevision."""

    async def compact(self, revision: int) -> None:
        """Forgets history before `revision`; current records stay."""
