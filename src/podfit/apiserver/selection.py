"""What a list or a watch selects, by labels and fields: parsed once, asked for every record or change."""

from __future__ import annotations

from podfit.api.kinds import Kind
from podfit.api.status import Object
from podfit.store.backend import Record


class Chosen:
    name: str | None = None

    def matches(self, obj: Object) -> bool:
        return True

    def takes(self, record: Record) -> bool:
        return True

    def filter(self, records: list[Record], limit: int = 0) -> list[Record]:
        return records

    def index(self, kind: Kind) -> tuple[str, str] | None:
        return None


def chosen(kind: Kind, labels: str, fields: str) -> Chosen | None:
    return None
