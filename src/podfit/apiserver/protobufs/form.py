"""The protobuf form of objects, lists and watch events.

A stored object is encoded once for each revision, and used in responses, items of lists and events; other values stay
JSON until they are sent (`Call.reply`). An event is a frame of four bytes of length and a WatchEvent, which contains a
whole object, envelope included, as in Kubernetes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import msgspec

from podfit.api.objects import Object
from podfit.api.protobuf.scalars import delimited, field, length
from podfit.api.protobuf.writing import Message, from_json, message, message_of, opening
from podfit.api.status import ApiError
from podfit.apiserver.protobufs.message_cache import MessageCache
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.forms import Form, Row, Spliced
from podfit.store.backend import Record

log = logging.getLogger(__name__)
STREAM_TYPE = "application/vnd.kubernetes.protobuf;stream=watch"
_ITEM = delimited(2)


class ProtobufForm:
    """Wraps another form and encodes its output in protobuf."""

    def __init__(self, form: Form, api_version: str, kind: str, kept: MessageCache | None = None) -> None:
        """`kept`: the cache of messages, for a form that shows objects as they are stored."""
        self.form, self._api_version, self._kind, self._kept = form, api_version, kind, kept
        self._message: Message = message_of(api_version, kind)

    @property
    def keeps(self) -> bool:
        """Whether the items of a list can be cached for other requests."""
        return isinstance(self.form, Spliced) and self.form.keeps

    def object(self, row: Row) -> bytes:
        return self.form.object(row)

    def items(self, rows: Sequence[Record]) -> list[bytes]:
        found = [self._found(row) for row in rows]
        return [_ITEM + length(data) + data for data in found]

    def _found(self, record: Record) -> bytes:
        if self._kept is None or not self.keeps:
            return self._encoded(record)
        return self._kept.of(self._api_version, record, self._encoded)

    def _encoded(self, record: Record) -> bytes:
        json = self.form.object(record)
        try:
            return self._message.of(json)
        except ValueError:
            log.warning("%s does not have the types of its kind: in protobuf it has metadata only", record.key)
            return message("meta.PartialObjectMetadata").of(json)

    def frame(self, revision: int, more: Object | None, empty: bool) -> tuple[bytes, bytes]:
        return self.form.frame(revision, more, empty)

    def head(self, pieces: Sequence[bytes], revision: int, more: Object | None) -> bytes:
        """The start of a list before its encoded items."""
        meta: Object = {"resourceVersion": str(revision)} if revision else {}
        listed = field(1, message("meta.ListMeta").of(msgspec.json.encode(meta | (more or {}))))
        size = len(listed) + sum(map(len, pieces))
        return opening(self._api_version, f"{self._kind}List", size) + listed

    def whole(self, record: Record) -> bytes:
        """A single object as a response; watch events of its revision contain the same bytes."""
        data = self._found(record)
        return opening(self._api_version, self._kind, len(data)) + data

    def event(self, word: str, record: Record, revision: int) -> bytes:
        if revision == record.modified:
            return event_frame(word, self.whole(record))
        data = self._encoded(Record(record.key, record.value, record.created, revision))
        return event_frame(word, opening(self._api_version, self._kind, len(data)) + data)

    def bookmark(self, revision: int, annotations: Object | None = None) -> bytes:
        meta: Object = {"resourceVersion": str(revision)}
        if annotations:
            meta["annotations"] = annotations
        obj = {"kind": self._kind, "apiVersion": self._api_version, "metadata": meta}
        return event_frame("BOOKMARK", from_json(wire.encode(obj)))


def event_frame(word: str, whole: bytes) -> bytes:
    """An event of a watch; `whole` is the object with its envelope."""
    data = field(1, word.encode()) + field(2, field(1, whole))
    return len(data).to_bytes(4, "big") + data


def frames_of(piece: bytes) -> Iterator[bytes]:
    """The events in a chunk of a watch, without their lengths."""
    at = 0
    while at < len(piece):
        end = at + 4 + int.from_bytes(piece[at : at + 4], "big")
        yield piece[at + 4 : end]
        at = end


def error_frame(error: ApiError) -> bytes:
    return event_frame("ERROR", from_json(wire.encode(error.to_status())))
