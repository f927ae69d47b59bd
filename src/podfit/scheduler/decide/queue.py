"""The queue of pods without a node: due now, due after a backoff, or waiting for the cluster to change.

Waiting pods are grouped by shape. When the cluster has room for a group, its first pod is due at once; the next follows
when that one has its node, so that no event triggers useless attempts.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from podfit.api.objects import Object
from podfit.scheduler.decide.pod.pods import Key, PodShape, pod_key, priority_of

ACTIVE, BACKOFF, WAITING, GATED, TAKEN = "active", "backoff", "unschedulable", "gated", "taken"
BACKOFF_INITIAL_S, BACKOFF_MAXIMUM_S = 1.0, 10.0


@dataclass(slots=True, eq=False)
class Entry:
    pod: Object
    key: Key
    uid: str
    priority: int
    order: int
    """Earlier pods of the same priority go first."""
    added_s: float
    state: str = ACTIVE
    attempts: int = 0
    failures: int = 0
    """Attempts that ended in an error rather than a verdict; they back off."""
    since_s: float = 0.0
    group: Group | None = None

    @property
    def rank(self) -> tuple[int, int]:
        return -self.priority, self.order


@dataclass(slots=True, eq=False)
class Group:
    shape: PodShape
    members: dict[Key, Entry] = field(default_factory=dict)
    heap: list[tuple[int, int, int, Entry]] = field(default_factory=list)
    plugins: frozenset[str] = frozenset()
    """The checks that refused it."""
    seen: tuple[int, ...] = ()
    """The state of the cluster when the group was last found not to fit."""

    def head(self) -> Entry | None:
        while self.heap and self.members.get(self.heap[0][3].key) is not self.heap[0][3]:
            heapq.heappop(self.heap)
        return self.heap[0][3] if self.heap else None


class PodQueue:
    def __init__(self) -> None:
        self._entries: dict[Key, Entry] = {}
        self._active: list[tuple[int, int, int, Entry]] = []
        self._backoff: list[tuple[float, int, Entry]] = []
        self.groups: dict[bytes, Group] = {}
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Entry | None:
        return self._entries.get(key)

    def refused_by(self, plugin: str) -> int:
        return sum(len(group.members) for group in self.groups.values() if plugin in group.plugins)

    def counts(self) -> dict[str, int]:
        found = dict.fromkeys((ACTIVE, BACKOFF, WAITING, GATED), 0)
        for entry in self._entries.values():
            if entry.state in found:
                found[entry.state] += 1
        return found

    # --- adding and removing
    def add(self, pod: Object, now: float, gated: bool = False) -> Entry:
        """Adds a pod that is new, or has changed so that a retry makes sense."""
        key, uid = pod_key(pod), pod["metadata"].get("uid") or ""
        entry = self._entries.get(key)
        if entry is None or entry.uid != uid:
            self.remove(key)
            entry = Entry(pod, key, uid, priority_of(pod), next(self._order), now)
            self._entries[key] = entry
            entry.state = GATED
        entry.pod, entry.priority = pod, priority_of(pod)
        if gated:
            self._leave_group(entry)
            entry.state = GATED
        else:
            self.activate(entry)
        return entry

    def remove(self, key: Key) -> Entry | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave_group(entry)
            entry.state = TAKEN
        return entry

    def pop(self) -> Entry | None:
        """The highest-priority pod that is due; the caller has to park, back off or remove it."""
        while self._active:
            entry = heapq.heappop(self._active)[3]
            if entry.state == ACTIVE:
                entry.state = TAKEN
                entry.attempts += 1
                return entry
        return None

    def activate(self, entry: Entry) -> None:
        if entry.state == ACTIVE:
            return
        self._leave_group(entry)
        entry.state = ACTIVE
        heapq.heappush(self._active, (*entry.rank, next(self._order), entry))

    @property
    def due(self) -> bool:
        while self._active and self._active[0][3].state != ACTIVE:
            heapq.heappop(self._active)
        return bool(self._active)

    @property
    def top_priority(self) -> int | None:
        """The priority of the next pod that is due; None if none is."""
        return self._active[0][3].priority if self.due else None

    # --- waiting
    def park(
        self, entry: Entry, shape: PodShape, seen: tuple[int, ...], now: float, plugins: frozenset[str] = frozenset()
    ) -> None:
        """Makes a pod that fits no node wait until the cluster has changed."""
        if self._entries.get(entry.key) is not entry:
            return
        group = self.groups.get(shape.key)
        if group is None:
            group = self.groups[shape.key] = Group(shape)
        entry.state, entry.group, entry.since_s = WAITING, group, now
        group.members[entry.key] = entry
        heapq.heappush(group.heap, (*entry.rank, next(self._order), entry))
        group.seen, group.plugins = seen, plugins

    def back_off(self, entry: Entry, now: float) -> None:
        """Delays the next attempt after an error that is unrelated to capacity."""
        if self._entries.get(entry.key) is not entry:
            return
        delay = min(BACKOFF_INITIAL_S * 2 ** min(entry.failures, 10), BACKOFF_MAXIMUM_S)
        entry.failures += 1
        self._leave_group(entry)
        entry.state = BACKOFF
        heapq.heappush(self._backoff, (now + delay, next(self._order), entry))

    def release_due(self, now: float) -> float | None:
        """Makes due the pods whose backoff has ended; returns when the next one ends."""
        while self._backoff:
            at, _, entry = self._backoff[0]
            if entry.state == BACKOFF and at > now:
                return at
            heapq.heappop(self._backoff)
            if entry.state == BACKOFF:
                self.activate(entry)
        return None

    def waiting(self) -> Iterator[Entry]:
        for group in list(self.groups.values()):
            yield from list(group.members.values())

    def flush(self, now: float, older_s: float) -> int:
        """Retries those that have waited very long, in case an event was missed."""
        old = [entry for entry in self.waiting() if now - entry.since_s >= older_s]
        for entry in old:
            self.activate(entry)
        return len(old)

    def _leave_group(self, entry: Entry) -> None:
        group, entry.group = entry.group, None
        if group is None:
            return
        group.members.pop(entry.key, None)
        if not group.members:
            self.groups.pop(group.shape.key, None)
