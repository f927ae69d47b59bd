"""Huge pages for a process with a large heap, where the cost of a fleet's objects is mostly TLB misses.

Objects are spread over a gigabyte and accessed in random order, so most accesses miss the TLB. CPython allocates memory
a mebibyte at a time, which Linux does not back with huge pages automatically. Since 6.1 it can be requested:
MADV_COLLAPSE, madvise(2). That copies everything once, so it runs in a thread, and again when the heap has grown
considerably. Small processes gain nothing and would only grow. If the kernel does not support it, nothing changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from podfit.kit.clock import Clock

log = logging.getLogger(__name__)

_MADV_COLLAPSE = 25
HUGE = 2 << 20
_FROM, _GROWN = 384 << 20, 1.5
_CHECK_EVERY_S = 10.0
Range = tuple[int, int]
"""Start and end address; the end is exclusive."""


async def keep_in_huge_pages(clock: Clock) -> None:
    """Moves the heap into huge pages now and whenever it has grown considerably, until cancelled."""
    done = 0
    while True:
        await clock.sleep(_CHECK_EVERY_S)
        try:
            kept = own_memory(Path("/proc/self/status").read_text())
            if not is_worth_it(kept, done):
                continue
            done, maps = kept, Path("/proc/self/maps").read_text()
        except OSError as error:
            # A process that is out of file descriptors must not fail because of an optimisation.
            log.info("memory is left as it is: %s", error)
            continue
        count = await asyncio.to_thread(collapse, movable(maps))
        log.info("%d of %d MiB are in huge pages", count * HUGE >> 20, kept >> 20)


def is_worth_it(kept: int, done: int) -> bool:
    """Whether collapsing pays off for a heap of this many bytes, given its size at the last run. Pure."""
    return kept >= max(_FROM, _GROWN * done)


def own_memory(status: str) -> int:
    """Bytes of anonymous memory in /proc/self/status; 0 if it is not shown. Pure."""
    line = next((line for line in status.splitlines() if line.startswith("RssAnon:")), "RssAnon: 0 kB")
    return int(line.split()[1]) * 1024


def movable(maps: str) -> Iterator[Range]:
    """Writable anonymous ranges except stacks in /proc/self/maps, rounded to whole huge pages. Pure."""
    for line in maps.splitlines():
        place, mode, _, _, inode, *name = line.split()
        if mode == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(word, 16) for word in place.split("-"))
            start, end = -(-start // HUGE) * HUGE, end // HUGE * HUGE
            if start < end:
                yield start, end


def collapse(ranges: Iterable[Range]) -> int:
    """Collapses the ranges into huge pages where possible and returns how many. Releases the interpreter lock."""
    # Imported here because most processes stay small and never need it.
    import ctypes

    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    # One at a time: a range with an unmovable page is not skipped entirely.
    return sum(
        libc.madvise(page, HUGE, _MADV_COLLAPSE) == 0 for start, end in ranges for page in range(start, end, HUGE)
    )
