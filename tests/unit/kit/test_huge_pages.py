"""Which memory uses huge pages, and when."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

from podfit.kit.process.huge_pages import HUGE, collapse, is_worth_it, movable, own_memory

MIB = 1 << 20


def test_small_processes_are_left_alone_and_large_ones_are_done_again_when_they_have_grown() -> None:
    assert not is_worth_it(300 * MIB, 0)
    assert is_worth_it(400 * MIB, 0)
    assert not is_worth_it(590 * MIB, 400 * MIB)
    assert is_worth_it(600 * MIB, 400 * MIB)


def test_only_whole_huge_pages_of_private_writable_memory_are_touched() -> None:
    maps = """\
00400000-00c00000 r-xp 00000000 fe:00 131 /usr/bin/python3.11
00c00000-01400000 rw-p 00000000 fe:00 131 /usr/bin/python3.11
01500000-01d00000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
7f0000300000-7f0000a00000 rw-p 00000000 00:00 0
7f0001000000-7f0001800000 rw-s 00000000 00:01 5 /dev/zero (deleted)
7f0002000000-7f0002800000 ---p 00000000 00:00 0
7ffc00000000-7ffc00800000 rw-p 00000000 00:00 0 [stack]
"""
    assert list(movable(maps)) == [(0x01600000, 0x01C00000), (0x7F0000400000, 0x7F0000A00000)]


def test_the_maps_and_the_memory_of_this_process_can_be_read() -> None:
    assert all(start < end for start, end in movable(Path("/proc/self/maps").read_text()))
    assert own_memory(Path("/proc/self/status").read_text()) > MIB
    assert own_memory("Name: something\n") == 0


def test_memory_says_the_same_afterwards_whether_the_kernel_can_or_not() -> None:
    with mmap.mmap(-1, 4 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for page in range(0, len(memory), 4096):
            memory[page : page + 4] = page.to_bytes(4, "big")
        view = ctypes.c_char.from_buffer(memory)
        start = -(-ctypes.addressof(view) // HUGE) * HUGE
        del view
        assert collapse([(start, start + 2 * HUGE)]) in (0, 1, 2)
        assert all(memory[page : page + 4] == page.to_bytes(4, "big") for page in range(0, len(memory), 4096))
        assert collapse([(1 << 46, (1 << 46) + HUGE)]) == 0
