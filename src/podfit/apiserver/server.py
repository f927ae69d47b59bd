"""The API server without its sockets: handles a request and returns a response.

`handle` is called by the HTTP front end (`http`) and by clients in the same process. The order of steps is Kubernetes':
impersonation, flow control, authorization, the check that the resource exists, and the verb. Every error becomes a
metav1.Status.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from podfit.api import protobuf
from podfit.api.protobuf.writing import from_json
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError, bad_request, go_quote, not_found
from podfit.api.text.names import path_segment
from podfit.apiserver import paths
from podfit.apiserver.admission.chain import Chain
from podfit.apiserver.apis.aggregation import Aggregation
from podfit.apiserver.apis.discovery import Discovery
from podfit.apiserver.auth.authorize import Action, Authorization
from podfit.apiserver.auth.certs.pki import Pki
from podfit.apiserver.auth.impersonate import impersonate, wanted_of
from podfit.apiserver.calls import Call, ServerParts, warning_headers
from podfit.apiserver.dialects import Dialects, policies
from podfit.apiserver.flows.control import FlowControl, TooMany
from podfit.apiserver.flows.measures import FlowMeasures
from podfit.apiserver.front.seats import Seats, is_endless, is_watch, too_many
from podfit.apiserver.metrics import Metrics
from podfit.apiserver.representation import wire
from podfit.apiserver.representation.encodings import yaml_of_json
from podfit.apiserver.representation.negotiate import JSON, PROTOBUF, YAML, is_indented, plain_media
from podfit.apiserver.request import Request, Response
from podfit.apiserver.routes import Route, parse
from podfit.apiserver.storage.objects import Objects
from podfit.apiserver.subresources.table import Handlers
from podfit.apiserver.tables.form import Tables
from podfit.apiserver.verbs.create import create
from podfit.apiserver.verbs.delete import delete, delete_collection
from podfit.apiserver.verbs.get import get
from podfit.apiserver.verbs.list import list_objects
from podfit.apiserver.verbs.patch import patch
from podfit.apiserver.verbs.update import update
from podfit.apiserver.verbs.watch import watch
from podfit.apiserver.writing.options import first
from podfit.apiserver.writing.writes import Writer
from podfit.kit.concurrency.worker_threads import CLIENT
from podfit.store.backend import Unavailable

log = logging.getLogger(__name__)

Verb = Callable[[Call], Awaitable[Response]]
VERBS: dict[str, Verb] = {
    "get": get,
    "list": list_objects,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}
_DEPRECATED = {
    ("", "v1", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "v1", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_DURATION = re.compile(r"[-+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+")
_OBJECT_METHODS = frozenset(("get", "update", "patch", "delete", "watch"))
_COLLECTION_METHODS = frozenset(("list", "create", "deletecollection", "watch"))


class ServerCore:
    """Handles authenticated requests: all steps between authentication and the store."""

    def __init__(
        self,
        objects: Objects,
        chain: Chain,
        authorization: Authorization,
        pki: Pki,
        in_flight: tuple[int, int] = (400, 200),
        dialects: Dialects | None = None,
    ) -> None:
        self.objects, self.authorization = objects, authorization
        self.registry, self.clock = objects.registry, objects.clock
        self.writer = Writer(objects, chain)
        self.tables = Tables()
        self.metrics = Metrics(self._is_served)
        self.dialects = dialects or Dialects()
        self.parts = ServerParts(objects, self.writer, self.tables, self.metrics, self.dialects)
        self.seats = Seats()
        self.flows = FlowControl(objects, sum(in_flight), FlowMeasures(self.metrics.registry))
        self.discovery = Discovery(self.registry, lambda: self.address, self.dialects.announced)
        self.handlers = Handlers()
        self.address = ""
        self.paths = paths.Paths(self)
        self.discovery.listeners.append(self.paths.forget)
        self.aggregation = Aggregation(objects, self.discovery, pki)
        self.notices = dict(_DEPRECATED)
        """The deprecation warnings of resources, by (group, version, plural)."""

    async def handle(self, request: Request) -> Response:
        started = self.clock.monotonic()
        route = parse(request.method, request.path, request.query)
        refused = self._impersonated(request, route)
        if refused is not None:
            response = refused
        elif not request.client or (is_endless(route) and not is_watch(route)):
            response = await self._answered(request, route)
        else:
            response = await self._admitted(request, route)
        if response.stream is None:
            if response.as_yaml:
                response.body = await self.writer.threads.run(len(response.body), lambda: yaml_of_json(response.body))
            if response.body and response.content_type == "application/json" and is_indented(request):
                response.body = msgspec.json.format(response.body, indent=2)
            dry_run = bool(request.query.get("dryRun"))
            self.metrics.answered(route, response.status, self.clock.monotonic() - started, dry_run)
        return response

    def _is_served(self, route: Route) -> bool:
        """Whether the resource exists, in this server or in the discovery document of another one."""
        if not route.resource:
            return self.discovery.document("version", route.group, route.version) is not None
        kind = self.registry.resource(route.group, route.version, route.resource)
        if kind is not None:
            return not route.subresource or kind.subresource(route.subresource) is not None
        foreign = (self.discovery.foreign.get(route.group) or {}).get("resources", {}).get(route.version) or ()
        wanted = f"{route.resource}/{route.subresource}" if route.subresource else route.resource
        return any(row.get("name") == wanted for row in foreign)

    def _impersonated(self, request: Request, route: Route | None) -> Response | None:
        """Replaces the request's user by the one that the headers name. Returns the error response if that is
        forbidden.
        """
        # A fast check for such headers. A false positive is harmless: no user is found then.
        if "impersonate-" not in "".join(request.headers):
            return None
        try:
            wanted = wanted_of(request.headers)
            if wanted is not None:
                request.user = impersonate(self.authorization, request.user, wanted, self._action(request, route))
        except ApiError as error:
            return error_response(error, request)
        return None

    async def _admitted(self, request: Request, route: Route | None) -> Response:
        """Waits until flow control admits the request, and holds its seats until the response has been sent."""
        try:
            admitted = await self.flows.admit(request, route)
        except TooMany as rejected:
            return too_many(rejected.headers, rejected.retry_s)
        finish = partial(self.flows.finish, admitted)
        if is_watch(route):
            # A watch holds seats while it starts, not while it runs.
            try:
                response = await self._answered(request, route)
            finally:
                finish()
        else:
            response = await self._with_seat(request, route, finish)
        response.headers = [*response.headers, *admitted.place.headers] if admitted is not None else response.headers
        return response

    async def _with_seat(self, request: Request, route: Route | None, finish: Callable[[], None]) -> Response:
        """Waits for a seat of the client, and holds it until the response has been sent."""
        try:
            if request.arriving is None:
                await self.seats.take(request)
            else:
                await self._receive(request, route)
        except ApiError as error:
            finish()
            return error_response(error, request)
        except BaseException:
            finish()
            raise

        def leave() -> None:
            self.seats.give_back(request)
            finish()

        response: Response | None = None
        try:
            response = await self._answered(request, route)
        finally:
            if response is None or response.pieces is None:
                leave()
            else:
                response.on_sent = leave
        return response

    async def _receive(self, request: Request, route: Route | None) -> None:
        """Reads the body of an authorized client before it takes a seat: a body that arrives slowly holds none."""
        self.authorization.check(request.user, self._action(request, route))
        await self.seats.take(request, body=True)
        try:
            await request.receive()
            await self.seats.take(request)
        finally:
            self.seats.give_back(request, body=True)

    async def _answered(self, request: Request, route: Route | None) -> Response:
        gauge = self.metrics.reading if request.reads else self.metrics.mutating
        gauge.inc()
        CLIENT.set(request.client or request.user.name)
        if is_endless(route) and not is_watch(route):
            # Reads of other clients do not wait for a connection that stays open.
            request.is_long = True
            self.parts.long_responses.turns.lengthen(request)
        else:
            self.parts.long_responses.enter()
        try:
            return await self._answer(request, route)
        except ApiError as error:
            return error_response(error, request)
        except Unavailable as error:
            return error_response(ApiError(503, "ServiceUnavailable", f"the store is not available: {error}"), request)
        except RecursionError:
            return error_response(ApiError(400, "BadRequest", "the request is nested too deeply"), request)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            why = "the server has an error of its own; see its log"
            return error_response(ApiError(500, "InternalError", f"Internal error occurred: {why}"), request)
        finally:
            gauge.dec()
            self.parts.long_responses.leave(request)

    async def _answer(self, request: Request, route: Route | None) -> Response:
        self.authorization.check(request.user, self._action(request, route))
        if request.arriving is not None:
            await request.receive()
        if route is None or not route.resource:
            return await self._page(request, route)
        kind = self.registry.resource(route.group, route.version, route.resource)
        if kind is None:
            foreign = self.aggregation.handler(route.group, route.version)
            # A hop may normalise `..`, and then the path differs from the one that was authorized.
            if foreign is not None and not {".", ".."} & set(request.path.split("/")):
                return await foreign(request)
            raise self._nothing_there(route.group)
        encoded = request.headers.get("content-type", "").startswith(protobuf.MEDIA_TYPE)
        if encoded:
            await self.writer.threads.run(request.size, lambda: read_protobuf(request))
        if "timeout" in request.query:
            _check_timeout(request.query["timeout"][0])
        if request.method == "HEAD" and route.subresource != "proxy":
            raise method_not_allowed()
        call = Call(request, route, kind, self.parts)
        if encoded and request.body and (dialect := call.dialect) is not None:
            request.body = wire.encode(policies.named_as(wire.decode(request.body), kind, dialect.words))
        if (notice := self.notices.get((route.group, route.version, route.resource))) is not None:
            call.warnings.append(notice)
        try:
            if route.subresource == "resize" and (dialect := call.dialect) is not None and not dialect.on_resize:
                raise not_found_status()
            verb = self._verb(kind, route, request.method)
            if complaints := path_segment(route.name):
                raise bad_request(f"Name parameter invalid: {go_quote(route.name)}: {';'.join(complaints)}")
            return await verb(call)
        except ApiError as error:
            error.warnings += call.warnings
            raise

    async def _page(self, request: Request, route: Route | None) -> Response:
        try:
            return await self.paths.answer(request, route)
        except paths.PageNotFound:
            # The resource may exist in an aggregated group whose discovery document has not been read yet.
            foreign = self.aggregation.handler(route.group, route.version) if route is not None else None
            if foreign is None:
                raise
            return await foreign(request)

    @staticmethod
    def _action(request: Request, route: Route | None) -> Action:
        if route is None or not route.resource:
            return Action(request.method.lower() if request.method != "HEAD" else "get", path=request.path)
        selected = first(request.query, "fieldSelector") if route.verb in ("list", "watch", "deletecollection") else ""
        return Action(
            route.verb,
            route.group,
            route.resource,
            route.subresource,
            route.namespace if route.resource != "namespaces" or route.name else "",
            route.name,
            "",
            route.version,
            selected,
        )

    def _verb(self, kind: Kind, route: Route, method: str) -> Verb:
        if _misplaced(kind, route):
            raise self._nothing_there(kind.group)
        if route.subresource:
            return self._subresource_verb(kind, route, method)
        special = self.handlers.kinds.get((kind.group, kind.plural))
        if special is not None:
            if route.verb not in kind.verbs:
                raise method_not_allowed()
            return special
        verb, named = route.verb, bool(route.name)
        if verb not in kind.verbs or verb not in (_OBJECT_METHODS if named else _COLLECTION_METHODS):
            raise method_not_allowed()
        if kind.namespaced and not route.namespace and verb in ("create", "get", "update", "patch", "delete"):
            raise method_not_allowed() if verb == "create" else self._nothing_there(kind.group)
        return VERBS[verb]

    def _subresource_verb(self, kind: Kind, route: Route, method: str) -> Verb:
        found = kind.subresource(route.subresource)
        if found is None and kind.custom:
            raise not_found(kind.plural, route.name, kind.group)
        if found is None or (kind.namespaced and not route.namespace):
            raise self._nothing_there(kind.group)
        # OPTIONS is not a verb of the API; only the target of a proxy can handle it.
        if route.verb not in found.verbs and (method, found.name) != ("OPTIONS", "proxy"):
            raise method_not_allowed()
        special = self.handlers.subresource(kind, route.subresource, route.verb)
        return special or VERBS[route.verb]

    def _nothing_there(self, group: str) -> ApiError:
        """The 404 of an unknown resource: a Status in groups of built-in kinds, plain text in all others."""
        built_in = not group or any(kind.group == group and not kind.custom for kind in self.registry)
        return not_found_status() if built_in else paths.page_not_found()


def _misplaced(kind: Kind, route: Route) -> bool:
    """Whether the path of a cluster-scoped resource names a namespace. Such a request must be rejected: authorization
    has only checked that namespace, where roles may allow everything."""
    own = route.name if kind.plural == "namespaces" else ""
    return not kind.namespaced and route.namespace != own


def _check_timeout(text: str) -> None:
    """Raises an error if the timeout that the client chose is not a valid duration."""
    if text and not _DURATION.fullmatch(text):
        why = f"time: invalid duration {go_quote(text)}"
        if re.fullmatch(r"[-+]?[0-9.]+", text):
            why = f"time: missing unit in duration {go_quote(text)}"
        raise bad_request(f"invalid timeout specified in the request URL - {why}")


def read_protobuf(request: Request) -> None:
    """Converts a protobuf body to an object, so that the request is handled as if the client had sent JSON."""
    try:
        request.body = protobuf.to_json(request.body) if request.body else b""
    except protobuf.BadProtobuf as error:
        raise bad_request(str(error)) from error
    request.headers = {**request.headers, "content-type": "application/json"}


def error_response(error: ApiError, request: Request | None = None) -> Response:
    if isinstance(error, paths.PageNotFound):
        return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
    headers = [*error.headers.items(), *warning_headers(error.warnings)]
    body = wire.encode(error.to_status())
    media = plain_media(request.headers.get("accept", "")) if request is not None else JSON
    if media == PROTOBUF:
        return Response(error.code, from_json(body), PROTOBUF, headers)
    if media == YAML:
        return Response(error.code, body, YAML, headers, as_yaml=True)
    return Response(error.code, body, headers=headers)


def not_found_status() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    why = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", why, {})
