"""Huge pages for a process that keeps a lot: what a fleet's objects cost is largely finding where they are.

They lie all over a gigabyte and are touched in no order, so most accesses need an address that the processor has not at
hand. CPython takes its memory a mebibyte at a time, of which Linux makes no huge pages by itself. Since 6.1 it can be
told to: MADV_COLLAPSE, madvise(2). That copies everything once, so it is done in a thread, and again when a good deal
more is kept. Small processes have nothing to gain and would only grow. Where the kernel cannot, all stays as it was.
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
_LOOK_EVERY_S = 10.0
Range = tuple[int, int]
"""The first address, and the one after the last."""


async def keep_in_huge_pages(clock: Clock) -> None:
    """Until cancelled."""
    done = 0
    while True:
        await clock.sleep(_LOOK_EVERY_S)
        try:
            kept = own_memory(Path("/proc/self/status").read_text())
            if not is_worth_it(kept, done):
                continue
            done, maps = kept, Path("/proc/self/maps").read_text()
        except OSError as error:
            # A process that has no file descriptor left this moment must not end for a matter of speed.
            log.info("memory is left as it is: %s", error)
            continue
        count = await asyncio.to_thread(collapse, movable(maps))
        log.info("%d of %d MiB are in huge pages", count * HUGE >> 20, kept >> 20)


def is_worth_it(kept: int, done: int) -> bool:
    """Of so many bytes, when it was done with so many before. Pure."""
    return kept >= max(_FROM, _GROWN * done)


def own_memory(status: str) -> int:
    """The bytes in /proc/self/status that are no file's; 0 where it does not tell. Pure."""
    line = next((line for line in status.splitlines() if line.startswith("RssAnon:")), "RssAnon: 0 kB")
    return int(line.split()[1]) * 1024


def movable(maps: str) -> Iterator[Range]:
    """What /proc/self/maps shows of writable memory that is no file's and no stack, in whole huge pages. Pure."""
    for line in maps.splitlines():
        place, mode, _, _, inode, *name = line.split()
        if mode == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(word, 16) for word in place.split("-"))
            start, end = -(-start // HUGE) * HUGE, end // HUGE * HUGE
            if start < end:
                yield start, end


def collapse(ranges: Iterable[Range]) -> int:
    """Makes huge pages of them where that can be, and answers how many. The interpreter is free meanwhile."""
    # Most processes stay small and never get here.
    import ctypes

    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    # One at a time: a range with a page that cannot be moved is not given up as a whole.
    return sum(
        libc.madvise(page, HUGE, _MADV_COLLAPSE) == 0 for start, end in ranges for page in range(start, end, HUGE)
    )
