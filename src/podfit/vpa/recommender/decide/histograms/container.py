"""One running container: which of its samples count, and its memory peak in the current window.

CPU samples are added to the histogram directly. Of memory only the peak of each window (a day) counts: it is in the
histogram at the time of the window's end, and is replaced by higher samples during the window.
"""

from __future__ import annotations

from datetime import UTC, datetime

from podfit.vpa.model.times import NEVER, Seconds
from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState
from podfit.vpa.recommender.decide.histograms.amounts import amount_of, scaled


class OomRefused(ValueError):
    """The out-of-memory kill cannot be counted; the message gives the reason."""


class ContainerState:
    __slots__ = ("last_cpu", "last_memory", "memory_peak", "oom_peak", "window_end")

    def __init__(self) -> None:
        self.last_cpu: Seconds = NEVER
        self.last_memory: Seconds = NEVER
        self.window_end: Seconds = NEVER
        self.memory_peak = 0
        self.oom_peak = 0

    @property
    def peak(self) -> int:
        return max(self.memory_peak, self.oom_peak)

    def add_cpu(self, aggregate: AggregateState, millicores: int, instant: Seconds) -> bool:
        """Adds a CPU sample. False if it is negative or not newer than the last one."""
        if millicores < 0 or instant <= self.last_cpu:
            return False
        aggregate.add_cpu(millicores, instant)
        self.last_cpu = instant
        return True

    def add_memory(self, aggregate: AggregateState, amount: int, instant: Seconds, oom: bool = False) -> bool:
        """Adds a memory sample. False if it is negative or older than the last one; samples of OOM kills may be
        older."""
        if amount < 0 or (not oom and instant < self.last_memory):
            return False
        self.last_memory = instant
        if self.window_end == NEVER:
            self.window_end = instant
        if instant < self.window_end:
            # A first sample of 0 bytes leaves nothing to replace, so later samples of the window are not added.
            uncounted = self.peak == 0 and (not oom or aggregate.config.miss_oom_kills)
            if uncounted or amount <= self.peak:
                return True
            aggregate.subtract_peak(self.peak, self.window_end)
        else:
            interval = aggregate.memory_interval
            self.window_end += (instant - self.window_end) // interval * interval + interval
            self.memory_peak = self.oom_peak = 0
        aggregate.add_peak(amount, self.window_end)
        if oom:
            self.oom_peak = amount
        else:
            self.memory_peak = amount
        return True

    def record_oom(self, aggregate: AggregateState, requested: int, instant: Seconds) -> int:
        """Counts the memory that the container would have needed (its limit or usage plus a margin), and returns it."""
        # A kill before the first sample of a window belongs to that window.
        windows = 1 if aggregate.config.miss_oom_kills else 2
        if instant < self.window_end - windows * aggregate.memory_interval:
            when = datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
            raise OomRefused(f"OOM event will be discarded - it is too old ({when})")
        # The peak of earlier kills is excluded; otherwise a series of kills would escalate.
        used = max(requested, self.memory_peak)
        if not used and not aggregate.config.recommend_without_samples:
            raise OomRefused("neither a memory request nor a sample says how much memory the container had")
        needed = max(used + amount_of(aggregate.oom_min_bump), scaled(used, aggregate.oom_ratio))
        if not self.add_memory(aggregate, needed, instant, oom=True):
            raise OomRefused("adding OOM sample failed")
        return needed
