"""Sets of CPUs and their text, as the kernel and the kubelet write them: `0-3,8`."""

from __future__ import annotations

from collections.abc import Iterable

Cpus = frozenset[int]
NO_CPUS: Cpus = frozenset()


class BadCpuList(ValueError):
    """The text is not a list of CPUs."""


def parse(text: str) -> Cpus:
    found: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise BadCpuList(f"{part.strip()!r} is neither a CPU nor a range of CPUs")
        low, high = int(first), int(last or first)
        if high < low:
            raise BadCpuList(f"invalid range {part.strip()!r} ({low} > {high})")
        found.update(range(low, high + 1))
    return frozenset(found)


def text(cpus: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
