"""The client: get, list, create, patch, update, delete and watch by kind. Objects are JSON dicts; errors are ApiErrors.

Objects returned by writes and watches may be shared with other components of this process: read only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from podfit.api.encoded import encoded
from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, Kind
from podfit.api.status import ApiError
from podfit.client.resizing import NATIVE_FORM, ServerForm, detect_form, modern, modern_answer, refusal
from podfit.client.transport import ClientRequest, Query, Reply, Stream, Transport

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

_decode = msgspec.json.decode


class Client:
    def __init__(self, transport: Transport, field_manager: str = "") -> None:
        self.transport = transport
        self.field_manager = field_manager
        self._form: ServerForm | None = None

    @property
    def shares(self) -> bool:
        """Whether the server is in this process and passes decoded objects, the same ones to all watches."""
        return getattr(self.transport, "shares", False)

    async def close(self) -> None:
        await self.transport.close()

    async def server_form(self) -> ServerForm:
        """The server's dialect of in-place resize, detected once."""
        if self._form is None:
            self._form = NATIVE_FORM if self.shares else await detect_form(self)
        return self._form

    async def raw(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        decode: Callable[[bytes], Any] = _decode,
    ) -> Any:
        """Requests any path of the server; returns the decoded response (text if it is not JSON). `decode` can disable
        that.
        """
        if body is None:
            request = ClientRequest(method, path, query, None, "", headers)
        else:
            sent = body if self.shares or isinstance(body, bytes) else encoded(body)
            request = ClientRequest(method, path, query, sent, content_type, headers)
        reply = await self.transport.request(request)
        return reply.shared if reply.shared is not None else _answer(reply, decode)

    async def get(
        self, kind: Kind, namespace: str, name: str, subresource: str = "", query: Query | None = None
    ) -> Object:
        found = _object(await self.raw("GET", kind.path(namespace, name, subresource), query))
        return modern(found) if _is_pods(kind) else found

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """`get` that returns None if there is no such object."""
        try:
            return await self.get(kind, namespace, name)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def list(self, kind: Kind, namespace: str = "", **query: str) -> Object:
        """The list object (`items`, `metadata.resourceVersion`); query parameters in API spelling (labelSelector=…)."""
        found = _object(await self.raw("GET", kind.path(namespace), query))
        return modern_answer(found) if _is_pods(kind) and not self.shares else found  # type: ignore[no-any-return]

    async def create(
        self, kind: Kind, obj: Object, namespace: str = "", name: str = "", subresource: str = "", **query: str
    ) -> Object:
        where = namespace or str((obj.get("metadata") or {}).get("namespace") or "")
        return await self.raw("POST", kind.path(where, name, subresource), self._managed(query), obj)  # type: ignore[no-any-return]

    async def update(self, kind: Kind, obj: Object, subresource: str = "", **query: str) -> Object:
        meta = obj["metadata"]
        path = kind.path(meta.get("namespace", ""), meta["name"], subresource)
        return await self.raw("PUT", path, self._managed(query), obj)  # type: ignore[no-any-return]

    async def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        patch: Any,
        subresource: str = "",
        content_type: str = MERGE,
        **query: str,
    ) -> Object:
        if _is_pods(kind):
            return await self._patch_pod(namespace, name, patch, subresource, content_type, query)
        path = kind.path(namespace, name, subresource)
        return await self.raw("PATCH", path, self._managed(query), patch, content_type)  # type: ignore[no-any-return]

    async def _patch_pod(
        self, namespace: str, name: str, patch: Any, subresource: str, content_type: str, query: dict[str, str]
    ) -> Object:
        """Patches a pod or a subresource of it. A resize patches the pod itself if the server has no resize
        subresource."""
        form = await self.server_form() if subresource == "resize" else NATIVE_FORM
        path = POD.path(namespace, name, "" if form.on_pod else subresource)
        try:
            answer = await self.raw("PATCH", path, self._managed(query), patch, content_type)
        except ApiError as error:
            raise (refusal(form, error) if form.on_pod else error) from None
        return answer if self.shares else modern_answer(answer)  # type: ignore[no-any-return]

    async def apply(
        self, kind: Kind, obj: Object, subresource: str = "", force: bool = False, manager: str = ""
    ) -> Object:
        """Applies an object. The field manager is that of the client unless the call names another one."""
        meta = obj["metadata"]
        query = {"force": "true"} if force else {}
        query = {**query, "fieldManager": manager} if manager else self._managed(query)
        path = kind.path(meta.get("namespace", ""), meta["name"], subresource)
        return await self.raw("PATCH", path, query, obj, APPLY)  # type: ignore[no-any-return]

    async def delete(
        self, kind: Kind, namespace: str, name: str, options: Object | None = None, **query: str
    ) -> Object:
        return await self.raw("DELETE", kind.path(namespace, name), query, options)  # type: ignore[no-any-return]

    def watch(self, kind: Kind, namespace: str = "", **query: str) -> AsyncGenerator[tuple[str, Object], None]:
        """(type, object) pairs until the server ends the watch; an ERROR event is raised as ApiError.

        The objects may be shared with other watches of this process: read only.
        """
        return self.follow(kind, namespace, query)

    async def follow(
        self,
        kind: Kind,
        namespace: str,
        query: Mapping[str, str],
        on_event: Callable[[str, Object], None] | None = None,
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Like `watch`, but a server in this process passes events directly to `on_event` where it can, in order with
        the yielded ones."""
        request = ClientRequest("GET", kind.path(namespace), {"watch": "true", **query})
        pods = _is_pods(kind)
        async with self.transport.stream(request) as stream:
            if stream.status != 200:
                raise await _refusal(stream)
            if on_event is not None and stream.subscribe is not None:
                stream.subscribe(on_event)
            async with aclosing(_lines(stream)) as lines:
                async for line in lines:
                    event = _decode(line)
                    if event["type"] == "ERROR":
                        raise ApiError.from_status(event["object"], 500)
                    yield event["type"], modern(event["object"]) if pods else event["object"]

    def _managed(self, query: dict[str, str]) -> dict[str, str]:
        if self.field_manager and "fieldManager" not in query:
            return {**query, "fieldManager": self.field_manager}
        return query


def _is_pods(kind: Kind) -> bool:
    return kind.plural == "pods" and not kind.group


def _answer(reply: Reply, decode: Callable[[bytes], Any]) -> Any:
    if reply.status >= 400:
        raise _error(reply.status, _content(reply.body))
    return decode(reply.body) if reply.body[:1] in (b"{", b"[") else reply.body.decode("utf-8", "replace")


def _content(body: bytes) -> Any:
    """Parses an error response. Text is allowed to start like JSON: a failed health check is `[-]etcd failed …`."""
    try:
        return _decode(body)
    except msgspec.DecodeError:
        return body.decode("utf-8", "replace")


def _object(content: Any) -> Object:
    if not isinstance(content, dict):
        raise ApiError(200, "", "the answer is not a Kubernetes object: the server is not a Kubernetes API server")
    return content


def _error(status: int, content: Any) -> ApiError:
    if isinstance(content, dict) and content.get("kind") == "Status":
        return ApiError.from_status(content, status)
    text = str(content).strip()
    if not text or text.startswith("<"):
        text = f"the server answered {status} without a Status; is it a Kubernetes API server?"
    return ApiError(status, "", text[:500])


async def _refusal(stream: Stream) -> ApiError:
    body = b"".join([chunk async for chunk in stream.chunks])
    return _error(stream.status, _content(body))


async def _lines(stream: Stream) -> AsyncGenerator[bytes, None]:
    """Lines including their terminators, so that a chunk of exactly one line is not copied."""
    rest = b""
    async for chunk in stream.chunks:
        lines = (rest + chunk if rest else chunk).splitlines(keepends=True)
        rest = b"" if not lines or lines[-1].endswith(b"\n") else lines.pop()
        for line in lines:
            if line != b"\n":
                yield line
    if rest.strip():
        yield rest
