"""Serves non-resource paths: discovery documents, health, version, metrics, OpenAPI."""

from __future__ import annotations

import platform
import sys
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import podfit
from podfit.api.protobuf.writing import from_json
from podfit.api.resize.dialects import NATIVE, VERSION_FIELD
from podfit.api.schema.publishing import openapi, openapi_proto
from podfit.api.status import ApiError
from podfit.apiserver.apis import health
from podfit.apiserver.apis.health import ApiHealth
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.negotiate import JSON, PROTOBUF, YAML, clauses, negotiate_discovery, plain_media
from podfit.apiserver.request import Request, Response
from podfit.apiserver.routes import Route

if TYPE_CHECKING:
    from podfit.apiserver.server import ServerCore

_ENDED = (".well-known", "api", "apis", "openid", "version")
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class PageNotFound(ApiError):
    """Results in 404 as plain text, for paths where Kubernetes sends no Status."""


def page_not_found() -> ApiError:
    return PageNotFound(404, "NotFound", "404 page not found")


def version() -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": podfit.FULL_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{sys.version_info.major}.{sys.version_info.minor}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"linux/{machine}",
    }


class Paths:
    def __init__(self, core: ServerCore) -> None:
        self._core = core
        self.health = ApiHealth()
        self._documents: dict[str, bytes] = {}
        self.documents: dict[str, Callable[[], Any]] = {}
        """Additional documents by path, generated on request."""
        self.metrics: dict[str, Callable[[], bytes]] = {
            "/metrics": core.metrics.text,
            "/metrics/slis": self.health.metrics.text,
        }
        """Prometheus' text by path: the server's own, and that of components in the same process."""

    async def answer(self, request: Request, route: Route | None) -> Response:
        parts = _parts(request.path)
        if request.method not in ("GET", "HEAD"):
            if self._known(parts, route):
                raise ApiError(
                    405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
                )
            raise page_not_found()
        if route is not None:
            return self._plain_document(request, "version", route.group, route.version)
        if not parts:
            return Response(200, wire.encode({"paths": self.listed()}))
        head = parts[0]
        if head in health.ENDPOINTS:
            found = self.health.answer(head, "/".join(parts[1:]), request)
            if found is None:
                raise page_not_found()
            return found
        if parts == ["version"]:
            return Response(200, wire.encode(version() | self._dialect()))
        path = "/" + "/".join(parts)
        if (text := self.metrics.get(path)) is not None:
            return Response(200, text(), _METRICS)
        if (make := self.documents.get(path)) is not None:
            return Response(200, wire.encode(make()))
        if head == "openapi" and len(parts) > 1:
            return self._openapi(parts[1:], request)
        if head in ("api", "apis"):
            return self._discovery(parts, request)
        raise page_not_found()

    def _known(self, parts: list[str], route: Route | None) -> bool:
        if route is not None:
            return self._core.discovery.document("version", route.group, route.version) is not None
        return bool(parts) and parts[0] in ("api", "apis", "version", *health.ENDPOINTS)

    def _dialect(self) -> dict[str, str]:
        """Serves the default dialect, that of namespaces without a label, to podfit's components."""
        default = self._core.dialects.default
        return {} if default == NATIVE else {VERSION_FIELD: default}

    def _document(self, request: Request, *name: str) -> Response:
        made = self._core.discovery.document(*name, native=request.native)
        if made is None:
            raise page_not_found()
        return Response(200, made)

    def _plain_document(self, request: Request, *name: str) -> Response:
        """A discovery document in its plain form, in any encoding."""
        answer = self._document(request, *name)
        media = plain_media(request.headers.get("accept", ""))
        if media == PROTOBUF:
            return Response(200, from_json(answer.body), PROTOBUF)
        return Response(200, answer.body, YAML, as_yaml=True) if media == YAML else answer

    def _discovery(self, parts: list[str], request: Request) -> Response:
        if len(parts) == 1:
            accepted = negotiate_discovery(request.headers.get("accept", ""))
            if accepted.shape:
                media = PROTOBUF if accepted.media == PROTOBUF else JSON
                made = self._document(request, "aggregated", parts[0], accepted.version).body
                shape = f"{media};g=apidiscovery.k8s.io;v={accepted.version};as=APIGroupDiscoveryList"
                answer = tagged(request, from_json(made) if media == PROTOBUF else made, shape)
                answer.headers.append(("Vary", "Accept"))
                return answer
            return self._plain_document(request, parts[0])
        if parts[0] == "apis" and len(parts) == 2:
            return self._plain_document(request, "group", parts[1])
        raise page_not_found()

    def _openapi(self, parts: list[str], request: Request) -> Response:
        """OpenAPI documents are large: they are generated on first request, and cached as bytes until the kinds
        change."""
        media = JSON if parts == ["v3"] else _openapi_media(parts[0], request.headers.get("accept", ""))
        compact = media == openapi_proto.MEDIA_TYPE
        where = "/".join(parts) + " protobuf" * compact
        made = self._documents.get(where)
        if made is None:
            value = self._make_openapi(parts)
            if value is None:
                raise page_not_found()
            made = openapi_proto.swagger_protobuf(value) if compact else wire.encode(value)
            self._documents[where] = made
        answer = tagged(request, made, media) if media else Response(406, content_type="text/plain")
        if parts != ["v3"]:
            answer.headers.append(("Vary", "Accept"))
        return answer

    def _make_openapi(self, parts: list[str]) -> Any:
        kinds = self._core.discovery.kinds()
        if parts == ["v2"]:
            return openapi.swagger(kinds)
        if parts == ["v3"]:
            return openapi.index(kinds)
        return openapi.at(kinds, "/".join(parts[1:])) if parts[0] == "v3" else None

    def forget(self) -> None:
        """Drops cached documents; called when kinds change."""
        self._documents.clear()

    def listed(self) -> list[str]:
        """The paths listed at `/`."""
        found = ["/api", "/api/v1", "/apis"]
        discovery = self._core.discovery
        for group in discovery.groups():
            found.append(f"/apis/{group}")
            found += [f"/apis/{group}/{version}" for version in discovery.versions(group)]
        for endpoint in health.ENDPOINTS:
            found += self.health.paths(endpoint)
        return sorted([*found, *self.metrics, "/openapi/v2", "/openapi/v3", "/version"])


def _parts(path: str) -> list[str]:
    """The segments of a path. Empty segments result in 404, as does a trailing slash except for a few documents: the
    path must be served exactly as it was authorized."""
    parts = path[1:].split("/")
    if not parts[-1] and (len(parts) == 1 or parts[0] in _ENDED):
        parts.pop()
    if "" in parts:
        raise page_not_found()
    return parts


def tagged(request: Request, body: bytes, media: str) -> Response:
    """Adds an ETag of the content, and responds with 304 to a client that has it."""
    tag = f'"{zlib.crc32(body):08x}{len(body):x}"'
    if request.headers.get("if-none-match", "") == tag:
        # The response repeats the media type, because the cache of a client copies it from here.
        return Response(304, content_type=media, headers=[("Etag", tag)])
    return Response(200, body, media, headers=[("Etag", tag)])


def _openapi_media(version: str, accept: str) -> str:
    """The best accepted type of an OpenAPI document; "" if none is available. Clients write the version in a type
    after an @, which the response's media type must not contain. Version 3 is sent as JSON in place of protobuf."""
    compact = openapi_proto.MEDIA_TYPE
    available = {JSON: JSON, "application/*": JSON, "*/*": JSON, "*": JSON}
    available |= {compact: compact} if version == "v2" else {compact.replace("v2.v1.0", "v3.v1.0"): JSON}
    found = (available.get(clause.media.replace("@", ".")) for clause in clauses(accept or "*/*"))
    return next(filter(None, found), "")
