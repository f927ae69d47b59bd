"""Estimates the seats of a request, and how long they are held after the response, like kube-apiserver 1.36. Pure.

Lists take seats by the bytes they hold in memory at once. Writes of objects with many watchers keep some seats for the
time needed to send the events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

BYTES_PER_SEAT = 100_000
STREAMED_BYTES = 1_000_000
"""A list from memory is sent in chunks: it never holds more than this."""
MOST_LIST_SEATS = 100
MOST_WRITE_SEATS = 10
WATCHES_PER_SEAT = 10
EVENT_S = 0.005
"""The time to send an event to the watches of one seat."""
MOST_OF_LEVEL = 0.15
"""The fraction of a level's nominal seats that one request may take."""


@dataclass(frozen=True, slots=True)
class Work:
    seats: int = 1
    final_seats: int = 0
    extra_s: float = 0.0
    """How long the final seats are held after the response; the client does not wait for that."""

    @property
    def most(self) -> int:
        return max(self.seats, self.final_seats)


ONE_SEAT = Work()


def most_seats(nominal: int) -> int:
    """The most seats of a level that one request may take."""
    return max(1, math.ceil(nominal * MOST_OF_LEVEL))


def list_work(count: int, average_bytes: int, limit: int, most: int) -> Work:
    """For a list of `count` stored objects, at most `limit` at a time (0: all)."""
    held = min(limit, count) if limit > 0 else count
    seats = math.ceil(min(held * average_bytes, STREAMED_BYTES) / BYTES_PER_SEAT)
    return Work(max(1, min(seats, most, MOST_LIST_SEATS)))


def write_work(watches: int, most: int) -> Work:
    if watches < WATCHES_PER_SEAT:
        return ONE_SEAT
    seats = math.ceil(watches / WATCHES_PER_SEAT)
    held = min(seats, most, MOST_WRITE_SEATS)
    # The same work on fewer seats takes longer.
    return Work(1, held, seats * EVENT_S / held)
