"""Containers that a resize ends and starts again: written down before the end, crossed out after the start.

Between the two, a container that exited with 0 under OnFailure looks as if its work were done. An agent that starts in
that moment knows better only from the ledger. The mark names the container that is ended by its id, so that a mark
whose crossing-out was lost is told from one that still holds.
"""

from __future__ import annotations

from collections.abc import Iterable

from podfit.agent.ledger import Ledger
from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import CREATED, ContainerState, PodState

START_FAILED = "StartError"


class Restarts:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def begin(self, record: PodRecord, snapshot: Snapshot, names: Iterable[str]) -> None:
        """Returns once the marks are on disk: only then may the containers be ended."""
        self._note(record, {**record.restarting, **{name: snapshot.running[name].id for name in names}})
        await self._ledger.flush()

    def due(self, record: PodRecord, snapshot: Snapshot, planned: Iterable[str]) -> list[str]:
        """Whom to end now: those planned, and marked ones that still run because an agent before us, or a stop, failed.

        The end goes on even if the size was taken back meanwhile: the container may have heard SIGTERM already.
        """
        for name in [name for name, ended in record.restarting.items() if _lives_anew(snapshot, name, ended)]:
            self.done(record, name)
        marked = [name for name in record.restarting if name in snapshot.running]
        return [name for name in dict.fromkeys([*planned, *marked]) if not record.job(f"stop:{name}")]

    def done(self, record: PodRecord, name: str) -> None:
        if name in record.restarting:
            self._note(record, {one: ended for one, ended in record.restarting.items() if one != name})

    def _note(self, record: PodRecord, marks: dict[str, str]) -> None:
        record.restarting = marks
        self._ledger.restart(record.uid, marks)


def recall(uid: str, state: PodState, ledger: Ledger) -> None:
    """At the start: marks of containers whose successors have run are old."""
    newest: dict[str, ContainerState] = {}
    for container in sorted(state.containers, key=lambda one: one.attempt):
        newest[container.name] = container
    marks = ledger.restarting(uid)
    ledger.restart(uid, {name: ended for name, ended in marks.items() if _holds(newest.get(name), ended)})


def _holds(newest: ContainerState | None, ended: str) -> bool:
    return newest is None or newest.id == ended or newest.state == CREATED or newest.reason == START_FAILED


def _lives_anew(snapshot: Snapshot, name: str, ended: str) -> bool:
    return name in snapshot.running and snapshot.running[name].id != ended
