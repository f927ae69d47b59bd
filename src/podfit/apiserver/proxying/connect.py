"""Admission of CONNECT: requests that open a connection to a pod, a node or a service (exec, attach, port-forward,
proxy).

The query of such a request is decoded as an object of a kind of its own (PodExecOptions, …). Admission may change that
object; the connection is opened with the result.
"""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.status import ApiError, bad_request, forbidden, go_quote
from podfit.api.text.formats import fits
from podfit.apiserver.admission.base import CONNECT, Attributes
from podfit.apiserver.auth.authorize import Action, Authorization
from podfit.apiserver.calls import Call
from podfit.apiserver.proxying import upgrade
from podfit.apiserver.routes import truthy

_STREAMS = ("stdin", "stdout", "stderr", "tty")
_STREAMING = frozenset(("exec", "attach", "portforward"))


async def admitted(call: Call) -> Object:
    """The options of the connection, after admission."""
    sub = call.kind.subresource(call.route.subresource)
    assert sub is not None
    options: Object = {"kind": sub.kind, "apiVersion": call.kind.api_version, **_read(call)}
    attrs = Attributes(
        CONNECT,
        call.kind,
        call.route.subresource,
        call.namespace,
        call.route.name,
        options,
        None,
        call.request.user,
    )
    chain = call.parts.writer.chain
    await chain.admit(attrs)
    await chain.validate(attrs)
    call.warnings += attrs.warnings
    return attrs.object or options


def check_create(authorization: Authorization, call: Call) -> None:
    """Requires permission to create for WebSockets, which open with GET: read permission alone must not give access to
    a pod, or to the server of its node, which runs commands in all pods."""
    route = call.route
    through_node = route.resource == "nodes" and upgrade.wanted(call.request)
    if route.verb == "create" or not (route.subresource in _STREAMING or through_node):
        return
    action = Action(
        "create", route.group, route.resource, route.subresource, route.namespace, route.name, version=route.version
    )
    decision = authorization.decide(call.request.user, action)
    if not decision.allowed:
        raise forbidden(route.resource, route.name, decision.reason, route.group)


def _read(call: Call) -> Object:
    query, word = call.request.query, call.route.subresource
    if word == "proxy":
        return {"path": call.route.rest} if call.route.rest else {}
    if word == "portforward":
        ports = _ports(query.get("ports", ()))
        return {"ports": ports} if ports else {}
    options: dict[str, Any] = {name: True for name in _STREAMS if truthy(query.get(name))}
    if container := (query.get("container") or [""])[0]:
        options["container"] = container
    if word == "exec":
        options["command"] = list(query.get("command", ())) or None
    return options


def _ports(values: Any) -> list[int]:
    ports = []
    for text in (piece for value in values for piece in value.split(",")):
        if not (text.isascii() and text.isdecimal()):
            raise _no_port(text, "invalid syntax")
        if not fits(text, 0xFFFF):
            raise _no_port(text, "value out of range")
        ports.append(int(text))
    return ports


def _no_port(text: str, why: str) -> ApiError:
    return bad_request(f"cannot convert to []int32: strconv.ParseUint: parsing {go_quote(text)}: {why}")
