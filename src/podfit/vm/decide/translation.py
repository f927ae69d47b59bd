"""Decides whether QEMU's translation cache has room for another vCPU. Applies to emulated machines only.

The cache is divided into regions. A vCPU uses one region after the other as it translates, and all regions are released
at once when the last one is full. A plugged vCPU needs a region immediately: QEMU 7.2 and 10.0 abort if none is free
(tcg/region.c, tcg_region_initial_alloc), and the guest is lost. So nothing is plugged unless a region is certainly
free.
"""

from __future__ import annotations

import re

_LEAST_MIB, _EACH_MIB = 48, 4
_REGION_MIB = 2
_SIZE = re.compile(r"gen code size\s+(\d+)/(\d+)")
_MARGIN = 1.005
"""Regions differ by a few pages."""


def cache_mib(max_vcpus: int) -> int:
    """The size of the cache. Without a bound an emulated guest that reboots uses more than its own memory."""
    return max(_LEAST_MIB, _EACH_MIB * max_vcpus)


def regions(cache: int, max_vcpus: int) -> int:
    """The number of regions that QEMU creates: up to eight per vCPU, of at least 2 MiB each."""
    if max_vcpus == 1:
        return 1
    each = next((each for each in range(8, 0, -1) if cache // max_vcpus // each >= _REGION_MIB), 1)
    return max_vcpus * each


def has_room(info: str, present: int, added: int, max_vcpus: int) -> bool:
    """Whether `added` vCPUs can be plugged in addition to the present ones. `info`: QEMU's report on the cache."""
    found = _SIZE.search(info)
    if found is None:
        return True
    used, whole = int(found[1]), int(found[2])
    count = regions(cache_mib(max_vcpus), max_vcpus)
    full = int(used * count * _MARGIN / whole) if whole else count
    return full + present + added <= count
