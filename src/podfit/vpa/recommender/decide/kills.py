"""Every out-of-memory kill that pods report, each counted once.

A container's status names at most two ends: the one it is in (`state`) and the one before (`lastState`). An end moves
from the first to the second while the container waits and starts again, and several changes of a pod may name it. So an
end is recognised by what it says about itself, not by the step in which it shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podfit.vpa.model.pods import container_status
from podfit.vpa.recommender.decide.oom import Oom, killed, record

Object = Mapping[str, Any]
PodId = tuple[str, str]
End = tuple[str, str]
"""Which end of a container: the id of the instance that ended, and when."""


class Kills:
    def __init__(self) -> None:
        self._counted: dict[PodId, dict[str, tuple[End, ...]]] = {}

    def seen(self, id: PodId, before: Object | None, after: Object) -> list[Oom]:
        """The kills that this change of a pod reveals; without `before` the pod is new."""
        found: list[Oom] = []
        for status in (after.get("status") or {}).get("containerStatuses") or ():
            if any(killed(end) for end in _ends(status)):
                found += self._of_container(id, before, after, status)
        return found

    def forget(self, id: PodId) -> None:
        self._counted.pop(id, None)

    def _of_container(self, id: PodId, before: Object | None, after: Object, status: Object) -> Iterator[Oom]:
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
            # What the container was allowed when it died stands in the older pod, unless the pod is still dead.
            still_dead = end is (status.get("state") or {}).get("terminated")
            yield record(after if before is None or was is None or still_dead else before, name, end, after)
        if fresh and was is not None:
            for _ in range(_between(was, status, len(fresh))):
                yield record(before or after, name, fresh[-1], after)


def _ends(status: Object) -> list[Object]:
    """What a status says about ends, the older one first."""
    holders = (status.get("lastState") or {}, status.get("state") or {})
    return [holder["terminated"] for holder in holders if holder.get("terminated") is not None]


def _identity(end: Object) -> End:
    return end.get("containerID") or "", end.get("finishedAt") or ""


def _restarts(status: Object) -> int:
    return status.get("restartCount") or 0


def _ended_again(was: Object, status: Object) -> bool:
    """Whether an instance ended between two looks although both name the same end: twice within one second."""
    if _restarts(status) <= _restarts(was):
        return False
    states = was.get("state") or {}, status.get("state") or {}
    return any(all(state.get(name) is not None for state in states) for name in ("running", "terminated"))


def _between(was: Object, status: Object, fresh: int) -> int:
    """How many kills no status names: of restarts between two looks, if all the ends that are named are kills."""
    if not all(killed(end) for end in (*_ends(was), *_ends(status))):
        return 0
    return max(0, _ended(status) - _ended(was) - fresh)


def _ended(status: Object) -> int:
    """How many instances have ended; the count of restarts grows only when the next one starts."""
    over = (status.get("state") or {}).get("running") is None and bool(_ends(status))
    return _restarts(status) + over
