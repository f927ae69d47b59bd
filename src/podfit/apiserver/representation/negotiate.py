"""Negotiates the content of responses: JSON, YAML or protobuf; the object itself, a Table or its metadata only."""

from __future__ import annotations

from typing import NamedTuple

from podfit.api import protobuf
from podfit.api.status import ApiError
from podfit.api.text.remember import remembered
from podfit.apiserver.request import Request
from podfit.apiserver.routes import truthy

JSON, YAML, PROTOBUF = "application/json", "application/yaml", protobuf.MEDIA_TYPE
TABLE, PARTIAL, PARTIAL_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
_AVAILABLE = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAMS = f"{JSON};stream=watch, {PROTOBUF};stream=watch"
_EXACT = frozenset((JSON, YAML, PROTOBUF, "*/*"))
_OBJECT_FORMS = frozenset((TABLE, PARTIAL, PARTIAL_LIST))
_INDENTED_FOR = ("curl", "Wget", "Mozilla/5.0")
_META_VERSIONS = frozenset(("v1", "v1beta1"))


class Accepted(NamedTuple):
    media: str = JSON
    shape: str = ""
    """Table, PartialObjectMetadata(List), a discovery kind, or empty for the object itself."""
    version: str = ""


PLAIN = Accepted()


def is_indented(request: Request) -> bool:
    """Whether JSON is indented: on request, or for a browser or curl."""
    pretty = request.query.get("pretty")
    return truthy(pretty) if pretty else request.headers.get("user-agent", "").startswith(_INDENTED_FOR)


class Clause(NamedTuple):
    media: str
    quality: float
    params: dict[str, str]


def clauses(accept: str) -> list[Clause]:
    """The clauses of an Accept header by descending quality; equal ones keep their order."""
    found = []
    for part in accept.split(","):
        media, *words = (word.strip() for word in part.split(";"))
        params = dict(word.split("=", 1) for word in words if "=" in word)
        try:
            quality = float(params.get("q", "1"))
        except ValueError:
            quality = 0.0
        if media:
            found.append(Clause(media.lower(), quality, params))
    found.sort(key=lambda clause: -clause.quality)
    return found


@remembered(512)
def negotiate(accept: str) -> Accepted:
    """Selects the representation of the response; raises 406 if none of the accepted types can be produced."""
    return _negotiated(accept, False)


@remembered(512)
def negotiate_built_in(accept: str) -> Accepted:
    """Like `negotiate`, for kinds that have a protobuf message."""
    return _routed(accept, listing=False)


@remembered(512)
def negotiate_list(accept: str) -> Accepted:
    """Like `negotiate_built_in`, for lists."""
    return _routed(accept, listing=True)


def _routed(accept: str, *, listing: bool) -> Accepted:
    """Negotiates like Kubernetes, whose router checks the Accept header first: its only wildcard is `*/*`, and its
    error for lists also names the types of watches."""
    if accept and _EXACT.isdisjoint(clause.media for clause in clauses(accept)):
        raise not_acceptable(listing)
    return _negotiated(accept, True)


@remembered(64)
def negotiate_review(accept: str) -> Accepted:
    """Like `negotiate`, for kinds that are only created, never read: they have no table."""
    return _negotiated(accept, True, tables=False)


def _negotiated(accept: str, in_protobuf: bool, tables: bool = True) -> Accepted:
    if not accept or accept == JSON:
        return PLAIN
    known = False
    for clause in clauses(accept):
        media = _media(clause.media)
        if media is None or clause.params.get("stream") not in (None, "watch"):
            continue
        known = True
        if media == PROTOBUF and not in_protobuf and "as" not in clause.params:
            continue
        shape = clause.params.get("as", "")
        if not shape:
            return Accepted(media)
        group, version = clause.params.get("g", ""), clause.params.get("v", "")
        if shape == TABLE and (media == PROTOBUF or not tables):
            continue
        if shape in _OBJECT_FORMS and group == "meta.k8s.io" and version in _META_VERSIONS:
            return Accepted(media, shape, version)
    if known:
        raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {_AVAILABLE}")
    raise not_acceptable()


@remembered(512)
def plain_media(accept: str) -> str:
    """The media type of a response with one fixed structure, such as an error: JSON if nothing else matches."""
    for clause in clauses(accept or JSON):
        media = _media(clause.media)
        if media is not None and "as" not in clause.params:
            return media
    return JSON


@remembered(64)
def negotiate_discovery(accept: str) -> Accepted:
    """Selects the form of discovery documents: aggregated if requested, otherwise plain."""
    for clause in clauses(accept or JSON):
        media = _media(clause.media)
        if media is None:
            continue
        shape = clause.params.get("as", "")
        if not shape:
            return Accepted(media)
        version = clause.params.get("v", "")
        if shape == "APIGroupDiscoveryList" and version in ("v2", "v2beta1"):
            return Accepted(media, shape, version)
    raise not_acceptable()


def _media(media: str) -> str | None:
    if media in (JSON, "*/*", "application/*"):
        return JSON
    if media == PROTOBUF:
        return PROTOBUF
    return YAML if media in (YAML, "application/x-yaml", "text/yaml") else None


def not_streamable() -> ApiError:
    return ApiError(406, "NotAcceptable", f"only the following media types are accepted: {_STREAMS}")


def not_acceptable(listing: bool = False) -> ApiError:
    known = f"{_AVAILABLE}, {_STREAMS}" if listing else _AVAILABLE
    return ApiError(406, "NotAcceptable", f"406: Not Acceptable\n\nAvailable representations: {known}", {})
