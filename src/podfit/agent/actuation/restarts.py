"""Tracks containers that a resize stops and starts again: they are marked in the ledger before the stop, and unmarked
after the start.

Between the two, a container that exited with 0 under OnFailure cannot be distinguished from one that completed its
work, except by the mark in the ledger, which an agent that starts at that moment reads. The mark names the stopped
container by its id, so that a mark that was not removed in time is recognised as old.
"""

from __future__ import annotations

from collections.abc import Iterable

from podfit.agent.pods.ledger import Ledger
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import CREATED, ContainerState, PodState

START_FAILED = "StartError"


class Restarts:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def begin(self, record: PodRecord, snapshot: Snapshot, names: Iterable[str]) -> None:
        """Returns once the marks are on disk: only then may the containers be stopped."""
        self._note(record, {**record.restarting, **{name: snapshot.running[name].id for name in names}})
        await self._ledger.flush()

    def due(self, record: PodRecord, snapshot: Snapshot, planned: Iterable[str]) -> list[str]:
        """The containers to stop now: the planned ones, and marked ones that still run because the agent was restarted
        or a stop failed. A marked container is stopped even if the size was reverted meanwhile: it may have received
        SIGTERM already."""
        for name in [name for name, ended in record.restarting.items() if _was_replaced(snapshot, name, ended)]:
            self.done(record, name)
        marked = [name for name in record.restarting if name in snapshot.running]
        return [name for name in dict.fromkeys([*planned, *marked]) if not record.jobs.running(f"stop:{name}")]

    def done(self, record: PodRecord, name: str) -> None:
        if name in record.restarting:
            self._note(record, {other: ended for other, ended in record.restarting.items() if other != name})

    def restore(self, record: PodRecord) -> None:
        """Restores the marks from the ledger when the agent starts."""
        record.restarting = dict(self._ledger.restarting(record.uid))

    def recall(self, uid: str, state: PodState) -> None:
        """Removes the marks of containers whose successors have run, when the agent starts."""
        newest: dict[str, ContainerState] = {}
        for container in sorted(state.containers, key=lambda container: container.attempt):
            newest[container.name] = container
        marks = self._ledger.restarting(uid)
        self._ledger.restart(
            uid, {name: ended for name, ended in marks.items() if _still_applies(newest.get(name), ended)}
        )

    def _note(self, record: PodRecord, marks: dict[str, str]) -> None:
        record.restarting = marks
        self._ledger.restart(record.uid, marks)


def _still_applies(newest: ContainerState | None, ended: str) -> bool:
    return newest is None or newest.id == ended or newest.state == CREATED or newest.reason == START_FAILED


def _was_replaced(snapshot: Snapshot, name: str, ended: str) -> bool:
    return name in snapshot.running and snapshot.running[name].id != ended
