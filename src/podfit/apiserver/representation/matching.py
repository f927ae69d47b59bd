"""Evaluates the field selector of a watch on converted objects: whether an object matches is known only after its
conversion.
"""

from __future__ import annotations

from collections.abc import Iterable

from podfit.apiserver.representation.forms import Event
from podfit.apiserver.representation.selection import Chosen
from podfit.store.backend import Record


class Matching:
    def __init__(self, selection: Chosen) -> None:
        self._selection = selection
        self._shown: dict[str, Record] = {}
        """By key: the last version of each matching object that the watcher has seen."""

    def begin(self, records: Iterable[Record]) -> list[Record]:
        """The matching objects, which are remembered as seen by the watcher."""
        taken = [record for record in records if self._selection.takes(record)]
        self._shown.update((record.key, record) for record in taken)
        return taken

    def between(self, event: Event) -> Event | None:
        """Converts an event to the watcher's view: ADDED for an object that starts to match, DELETED for one that stops
        matching. None if the watcher does not see the object.
        """
        word, record, revision = event
        before = self._shown.pop(record.key, None)
        if word != "DELETED" and self._selection.takes(record):
            self._shown[record.key] = record
            return "ADDED" if before is None else "MODIFIED", record, revision
        if before is None:
            return None
        return "DELETED", record if word == "DELETED" else before, revision
