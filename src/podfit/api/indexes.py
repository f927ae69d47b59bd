"""The indexes of an Indexed Job in Kubernetes' notation, `1,3-5`: stored as intervals, because there may be
billions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Indexes:
    """An immutable set of integers. Its cost depends on the number of intervals, not of members."""

    __slots__ = ("intervals",)

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        """`intervals` as (first, last), in any order; they may overlap."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(intervals):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(last, merged[-1][1])
            elif first <= last:
                merged.append((first, last))
        self.intervals = tuple(merged)

    @staticmethod
    def parse(text: str) -> Indexes:
        """Parses Kubernetes' notation. Raises ValueError if the text is not a list of indexes."""
        found = []
        for part in filter(None, text.split(",")):
            first, _, last = part.partition("-")
            found.append((int(first), int(last or first)))
        return Indexes(found)

    @staticmethod
    def of(numbers: Iterable[int | None]) -> Indexes:
        return Indexes((number, number) for number in numbers if number is not None)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        at = bisect_right(self.intervals, (number, float("inf"))) - 1
        return at >= 0 and number <= self.intervals[at][1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indexes) and self.intervals == other.intervals

    def __hash__(self) -> int:
        return hash(self.intervals)

    def __or__(self, other: Indexes) -> Indexes:
        return Indexes([*self.intervals, *other.intervals])

    def __and__(self, other: Indexes) -> Indexes:
        found, mine, theirs = [], 0, 0
        while mine < len(self.intervals) and theirs < len(other.intervals):
            first = max(self.intervals[mine][0], other.intervals[theirs][0])
            last = min(self.intervals[mine][1], other.intervals[theirs][1])
            if first <= last:
                found.append((first, last))
            if self.intervals[mine][1] < other.intervals[theirs][1]:
                mine += 1
            else:
                theirs += 1
        return Indexes(found)

    def __sub__(self, other: Indexes) -> Indexes:
        return self & Indexes(other.gaps(self.intervals[-1][1] + 1)) if self.intervals else self

    def gaps(self, total: int) -> Iterator[tuple[int, int]]:
        """The intervals between 0 and `total` that are not in the set."""
        start = 0
        for first, last in self.intervals:
            if first >= total:
                break
            if start < first:
                yield start, first - 1
            start = last + 1
        if start < total:
            yield start, total - 1

    def missing(self, total: int) -> Iterator[int]:
        """The numbers below `total` that are not in the set, the smallest first."""
        for first, last in self.gaps(total):
            yield from range(first, last + 1)

    def below(self, total: int) -> Indexes:
        return self & Indexes([(0, total - 1)])

    def __str__(self) -> str:
        """The notation of Kubernetes, which lists two adjacent numbers separately (`1,2`, not `1-2`)."""
        parts = []
        for first, last in self.intervals:
            near = last - first < 2
            parts += [str(number) for number in range(first, last + 1)] if near else [f"{first}-{last}"]
        return ",".join(parts)
