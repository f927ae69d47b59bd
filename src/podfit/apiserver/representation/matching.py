"""A watch by fields of objects that are converted for it: whether one matches is known only after the conversion."""

from __future__ import annotations

from collections.abc import Iterable

from podfit.apiserver.representation.forms import Event
from podfit.apiserver.representation.selection import Chosen
from podfit.store.backend import Record


class Matching:
    def __init__(self, selection: Chosen) -> None:
        self._selection = selection
        self._shown: dict[str, Record] = {}
        """By key: what the watcher has seen last of each object that matches."""

    def begin(self, records: Iterable[Record]) -> list[Record]:
        """Those that match; the watcher knows them, or is shown them."""
        taken = [record for record in records if self._selection.takes(record)]
        self._shown.update((record.key, record) for record in taken)
        return taken

    def between(self, event: Event) -> Event | None:
        """The event as one of what matches: an object that begins to match is added, one that ceases to is deleted."""
        word, record, revision = event
        before = self._shown.pop(record.key, None)
        if word != "DELETED" and self._selection.takes(record):
            self._shown[record.key] = record
            return "ADDED" if before is None else "MODIFIED", record, revision
        if before is None:
            return None
        return "DELETED", record if word == "DELETED" else before, revision
