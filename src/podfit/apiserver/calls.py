"""A call: one request for a served kind, with the components of the server that the verbs use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from podfit.api.objects import Object
from podfit.api.protobuf.writing import from_json, knows
from podfit.api.registry.kinds import POD, Kind
from podfit.api.status import ApiError
from podfit.apiserver.apis import conversion
from podfit.apiserver.dialects import Dialect, Dialects
from podfit.apiserver.dialects.edge import DialectForm, DialectSpliced, Edge
from podfit.apiserver.dialects.newer import has_newer_types
from podfit.apiserver.dialects.policies import may_translate
from podfit.apiserver.front.long_responses import LongResponses
from podfit.apiserver.metrics import Metrics
from podfit.apiserver.protobufs.form import ProtobufForm
from podfit.apiserver.protobufs.message_cache import MessageCache
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.encodings import COMPACT, INDENTED, JOINED, Encoding, Yaml
from podfit.apiserver.representation.forms import Converted, Form, MetadataOnly, Row, Spliced
from podfit.apiserver.representation.listing import ListCache, encode_items
from podfit.apiserver.representation.negotiate import (
    JSON,
    PARTIAL,
    PARTIAL_LIST,
    PLAIN,
    PROTOBUF,
    TABLE,
    YAML,
    Accepted,
    is_indented,
    negotiate,
    negotiate_built_in,
    negotiate_list,
    negotiate_review,
)
from podfit.apiserver.request import Request, Response
from podfit.apiserver.routes import Route
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.tables.form import TableForm, Tables
from podfit.apiserver.writing.options import WriteOptions, first
from podfit.apiserver.writing.write import Write, Written
from podfit.apiserver.writing.writes import Writer
from podfit.store.backend import Record

Result = TypeVar("Result")
_ALL_WARNINGS = 4096
_ONE_WARNING = 256
_FEW_PIECES = 4


class ServerParts:
    """The components shared by verbs."""

    def __init__(self, objects: Objects, writer: Writer, tables: Tables, metrics: Metrics, dialects: Dialects) -> None:
        self.objects, self.writer, self.tables, self.metrics = objects, writer, tables, metrics
        self.long_responses, self.list_cache = LongResponses(objects.clock), ListCache()
        self.dialects = dialects
        self._forms: dict[Kind, Form] = {}
        self._edges: dict[tuple[Kind, bool], Edge] = {}
        self._dialect_forms: dict[tuple[Kind, bool], Form] = {}
        self._protobuf_forms: dict[Form, ProtobufForm] = {}
        self._kept_messages = MessageCache()

    def plain_form(self, kind: Kind) -> Form:
        form = self._forms.get(kind)
        if form is None:
            made: Form = Converted(kind) if conversion.needed(kind) else Spliced(self.objects.splicer(kind))
            form = self._forms[kind] = made
        return form

    def edge(self, kind: Kind, newer: bool = False) -> Edge:
        found = self._edges.get((kind, newer))
        if found is None:
            found = self._edges[kind, newer] = Edge(self.dialects, kind, newer)
        return found

    def dialect_form(self, kind: Kind, newer: bool) -> Form:
        """The plain form of a kind that a namespace may show in another dialect. `newer`: for a client with types of
        Kubernetes 1.27 or later."""
        form = self._dialect_forms.get((kind, newer))
        if form is None:
            made = DialectSpliced(self.objects.splicer(kind), self.edge(kind, newer))
            form = self._dialect_forms[kind, newer] = made
        return form

    def protobuf_form(self, kind: Kind, form: Form) -> Form:
        """The protobuf encoding of a plain form; shared like that form, so that an event is encoded once."""
        found = self._protobuf_forms.get(form)
        if found is None:
            made = ProtobufForm(form, kind.api_version, kind.kind, self._kept_messages)
            found = self._protobuf_forms[form] = made
        return found


class Call(msgspec.Struct):
    request: Request
    route: Route
    kind: Kind
    parts: ServerParts
    warnings: list[str] = msgspec.field(default_factory=list)

    @property
    def objects(self) -> Objects:
        return self.parts.objects

    @property
    def namespace(self) -> str:
        return self.route.namespace if self.kind.namespaced else ""

    def accepted(self) -> Accepted:
        accept = self.request.headers.get("accept", "")
        if accept in ("", JSON):
            return PLAIN
        if self.kind.verbs == ("create",):
            return negotiate_review(accept)
        if not self._in_protobuf:
            return negotiate(accept)
        return negotiate_list(accept) if self.route.verb == "list" else negotiate_built_in(accept)

    @property
    def _in_protobuf(self) -> bool:
        return not self.kind.custom and knows(self.kind.api_version, self.kind.kind)

    def form(self, accepted: Accepted) -> Form:
        """The form of the response. It is negotiated before the request is executed, so that a request whose response
        cannot be encoded changes nothing."""
        translates = self._translates()
        if not accepted.shape:
            plain = self.parts.plain_form(self.kind)
            if translates:
                newer = accepted.media == PROTOBUF or has_newer_types(self.request.headers)
                plain = self.parts.dialect_form(self.kind, newer)
            return self.parts.protobuf_form(self.kind, plain) if accepted.media == PROTOBUF else plain
        if accepted.shape == TABLE:
            include = first(self.request.query, "includeObject")
            form = TableForm(self.parts.tables, self.kind, accepted.version, include, self.objects.clock.now())
            return DialectForm(form, self.parts.edge(self.kind)) if translates and include == "Object" else form
        if self.route.verb != "watch":
            self._expect_shape(accepted.shape)
        partial = MetadataOnly(accepted.version, self.kind)
        return ProtobufForm(partial, partial.api_version, PARTIAL) if accepted.media == PROTOBUF else partial

    def _translates(self) -> bool:
        """Whether the response may be in another dialect, now or later in a watch."""
        dialects, namespace = self.parts.dialects, self.route.namespace
        if self.route.verb != "watch" and (not dialects.active or (namespace and dialects.of(namespace) is None)):
            return False
        return may_translate(self.kind) and not self.request.native

    @property
    def dialect(self) -> Dialect | None:
        """The dialect in which objects of this kind are written; None: the stored form."""
        dialects = self.parts.dialects
        if not dialects.active or self.request.native:
            return None
        found = dialects.of(self.route.namespace)
        return found if found is not None and found.concerns(self.kind) else None

    def _expect_shape(self, shape: str) -> None:
        """Raises 406 unless the request is for a list as PartialObjectMetadataList or an object as
        PartialObjectMetadata."""
        several = self.route.verb in ("list", "deletecollection")
        if several == (shape == PARTIAL_LIST):
            return
        what = f"is a list (*{_go_type(self.kind)}List)" if several else f"is not a list (*{_go_type(self.kind)})"
        raise ApiError(406, "NotAcceptable", f"you requested {shape}, but the requested object {what}")

    def write(self, options: WriteOptions, subresource: str = "") -> Write:
        user, name, size = self.request.user, self.route.name, self.request.size
        write = Write(self.kind, self.namespace, name, user, options, subresource, self.warnings, size=size)
        if self.parts.dialects.active and (around := self.parts.dialects.of(self.namespace)) is not None:
            self._translate(write, around)
        return write

    def _translate(self, write: Write, around: Dialect) -> None:
        write.dialect = self.dialect
        if write.dialect is None and self.kind != POD and may_translate(self.kind) and not self.request.native:
            write.worded = around.worded
        if self.kind == POD:
            write.stages, write.in_quota = around.stages, around.in_quota
            if write.dialect is not None:
                write.strategy = self.parts.dialects.strategies[write.dialect.name]

    async def offload(self, work: Callable[[], Result]) -> Result:
        """Runs work on the body, in a thread if the body is large."""
        return await self.parts.writer.threads.run(self.request.size, work)

    def answer(self, accepted: Accepted, form: Form, row: Row, status: int = 200) -> Response:
        if isinstance(form, ProtobufForm) and isinstance(row, Record):
            return Response(status, form.whole(row), PROTOBUF, headers=warning_headers(self.warnings))
        return self.reply(accepted, form.object(row), status)

    def written(self, accepted: Accepted, form: Form, made: Written, status: int = 200) -> Response:
        """Returns the response to a write."""
        record = made.record
        if record is None:
            return self.answer(accepted, form, made.obj, status)
        if self.request.shares and isinstance(form, Spliced) and form.as_stored and accepted.media == JSON:
            # A client in this process gets the object itself instead of bytes that it would decode again.
            shared = self.objects.decoded(record)
            return Response(status, headers=warning_headers(self.warnings), shared=shared)
        return self.answer(accepted, form, record, status)

    async def reply_list(
        self, accepted: Accepted, form: Form, rows: Sequence[Record], revision: int, more: Object | None, kept: str = ""
    ) -> Response:
        """A list response, assembled in slices. `kept`: the prefix below which the list contains all objects as
        stored."""
        encoding, media = self._encoding(accepted), accepted.media
        keeps = bool(kept) and encoding in (COMPACT, JOINED)
        pieces = self.parts.list_cache.find(self.kind, kept, media, rows) if keeps else None
        if pieces is None:
            pieces = []
            await self.parts.long_responses.run(self.request, encode_items(form, encoding, rows, pieces))
            if keeps:
                self.parts.list_cache.keep(self.kind, kept, media, rows, pieces)
        if isinstance(form, ProtobufForm):
            return self._replied(accepted, [form.head(pieces, revision, more), *pieces])
        head, tail = encoding.frame(*form.frame(revision, more, not rows), not rows)
        return self._replied(accepted, [head, *pieces, tail])

    def _encoding(self, accepted: Accepted) -> Encoding:
        if accepted.media == YAML:
            return Yaml()
        if accepted.media == PROTOBUF:
            return JOINED
        return INDENTED if is_indented(self.request) else COMPACT

    def _replied(self, accepted: Accepted, pieces: list[bytes]) -> Response:
        response = Response(200, content_type=accepted.media, headers=warning_headers(self.warnings))
        if self.request.upgrade is not None and len(pieces) > _FEW_PIECES:
            response.pieces = pieces
        else:
            response.body = b"".join(pieces)
        return response

    def reply(self, accepted: Accepted, body: bytes, status: int = 200) -> Response:
        media = accepted.media
        if media == PROTOBUF:
            body = from_json(body)
        return Response(status, body, media, headers=warning_headers(self.warnings), as_yaml=media == YAML)

    def answer_value(self, value: Object, status: int = 200, accepted: Accepted | None = None) -> Response:
        """The response with a JSON value that is not a stored object: Status, Scale, reviews. Callers that write check
        `accepted` first.
        """
        return self.reply(accepted or self.accepted(), wire.encode(value), status)


def warning_headers(warnings: list[str]) -> list[tuple[str, str]]:
    """One Warning header each. If their total is too long, each is truncated, and the last ones are dropped."""
    if not warnings:
        return []
    texts = [text for text in dict.fromkeys(warnings) if text]
    if sum(map(len, texts)) > _ALL_WARNINGS:
        texts = _cut(texts)
    headers = []
    for text in texts:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", " ")
        headers.append(("Warning", f'299 - "{quoted}"'))
    return headers


def _cut(texts: list[str]) -> list[str]:
    kept: list[str] = []
    whole = written = 0
    for text in texts:
        whole += len(text)
        if whole > _ALL_WARNINGS and written >= _ALL_WARNINGS:
            break
        kept.append(text[:_ONE_WARNING])
        written += len(kept[-1])
    return kept


def success(code: int = 201, details: Object | None = None) -> Object:
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    if code:
        status["code"] = code
    return status


def _go_type(kind: Kind) -> str:
    """The name of the kind in a Kubernetes server's own code."""
    if kind.custom:
        return "unstructured.Unstructured"
    package = kind.group.partition(".")[0]
    return f"{'core' if package in ('', 'events') else package}.{kind.kind}"
