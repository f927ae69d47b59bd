"""Counts every out-of-memory kill that pods report, each one once.

Nodes of podfit count kills as well, including those that no status shows. The two counts are compared: a kill that one
source has already counted is not counted again for the other.

A container's status names at most two terminations: that of the current instance (`state`) and the one before
(`lastState`). A termination moves from the first field to the second while the container waits and starts again, and
several changes of a pod may name it. Therefore terminations are identified by their contents, not by the change in
which they appear.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podfit.api.objects import ObjectView
from podfit.vpa.model.objects.pods import container_status
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.evidence.oom import Oom, killed, killed_at, record

PodId = tuple[str, str]
End = tuple[str, str]
"""Identifies one termination of a container by the instance's id and the time."""


@dataclass(slots=True)
class Count:
    """The number of a container's kills known from statuses, and the number known from its node."""

    from_statuses: int = 0
    from_node: int = 0
    base: int | None = None
    """The value of the node's counter that represents no kills; None until it is known."""
    last: int = 0

    @property
    def known(self) -> int:
        return max(self.from_statuses, self.from_node)

    def count_by_node(self, counter: int, from_zero: bool) -> int:
        """Compares the node's counter; returns the number of new kills. `from_zero`: every kill that the node has
        counted is new."""
        before = self.known
        if self.base is None:
            self.base = 0 if from_zero else counter - before
        elif counter < self.last:
            # The node's counter started again from zero, or the pod was recreated.
            self.base = counter - before
        self.last = counter
        self.from_node = max(self.from_node, counter - self.base)
        return self.known - before

    def count_by_statuses(self, more: int) -> int:
        before = self.known
        self.from_statuses += more
        return self.known - before


class Kills:
    def __init__(self) -> None:
        self._counted: dict[PodId, dict[str, tuple[End, ...]]] = {}
        self._counts: dict[PodId, dict[str, Count]] = {}
        self._older: set[PodId] = set()
        """Pods with a termination before this process began: kills counted by nodes until then are ignored."""

    def seen(self, id: PodId, before: ObjectView | None, after: ObjectView, younger: bool = False) -> list[Oom]:
        """The kills in this change of a pod. Without `before` the pod is new to this process; `younger` is set if it
        was created after the process started."""
        statuses = (after.get("status") or {}).get("containerStatuses") or ()
        if before is None and not younger and any(_ended(status) for status in statuses):
            self._older.add(id)
        found: list[Oom] = []
        for status in statuses:
            if any(killed(end) for end in _ends(status)):
                kills = list(self._of_container(id, before, after, status))
                new = self._count(id, status.get("name") or "").count_by_statuses(len(kills))
                found += kills[len(kills) - new :]
        return found

    def count_by_node(self, id: PodId, container: str, counter: int, pod: ObjectView, now: Seconds) -> list[Oom]:
        """The kills that a node has counted and that no status has shown."""
        new = self._count(id, container).count_by_node(counter, from_zero=id not in self._older)
        return [killed_at(pod, container, now)] * new

    def forget(self, id: PodId) -> None:
        self._counted.pop(id, None)
        self._counts.pop(id, None)
        self._older.discard(id)

    def _count(self, id: PodId, container: str) -> Count:
        return self._counts.setdefault(id, {}).setdefault(container, Count())

    def _of_container(
        self, id: PodId, before: ObjectView | None, after: ObjectView, status: ObjectView
    ) -> Iterator[Oom]:
        name = status.get("name") or ""
        was = container_status(before, name) if before is not None else None
        counted = self._counted.setdefault(id, {})
        known, ends = counted.get(name, ()), _ends(status)
        fresh = [end for end in ends if killed(end) and _identity(end) not in known]
        if not fresh and was is not None and killed(ends[-1]) and _ended_again(was, status):
            fresh = ends[-1:]
        if fresh:
            counted[name] = tuple(_identity(end) for end in ends)
        for end in fresh:
            # The older pod has the limit at the time of the kill, unless the container is still terminated.
            still_dead = end is (status.get("state") or {}).get("terminated")
            yield record(after if before is None or was is None or still_dead else before, name, end, after)
        if fresh and was is not None:
            for _ in range(_between(was, status, len(fresh))):
                yield record(before or after, name, fresh[-1], after)


def _ends(status: ObjectView) -> list[ObjectView]:
    """The terminations in a status, the older one first."""
    holders = (status.get("lastState") or {}, status.get("state") or {})
    return [holder["terminated"] for holder in holders if holder.get("terminated") is not None]


def _identity(end: ObjectView) -> End:
    return end.get("containerID") or "", end.get("finishedAt") or ""


def _restarts(status: ObjectView) -> int:
    return status.get("restartCount") or 0


def _ended_again(was: ObjectView, status: ObjectView) -> bool:
    """Whether an instance terminated between two observations that name the same termination: two within one second."""
    if _restarts(status) <= _restarts(was):
        return False
    states = was.get("state") or {}, status.get("state") or {}
    return any(all(state.get(name) is not None for state in states) for name in ("running", "terminated"))


def _between(was: ObjectView, status: ObjectView, fresh: int) -> int:
    """The number of kills that no status names: restarts between two observations, if all named terminations
    are kills."""
    if not all(killed(end) for end in (*_ends(was), *_ends(status))):
        return 0
    return max(0, _ended(status) - _ended(was) - fresh)


def _ended(status: ObjectView) -> int:
    """The number of terminated instances. The restart count alone grows only when the next instance starts."""
    over = (status.get("state") or {}).get("running") is None and bool(_ends(status))
    return _restarts(status) + over
