"""Operations in OpenAPI documents: identifiers, tags, media types, parameters, bodies and responses.

`paths` decides which operations a path has. Generated clients take their function names from the identifiers and their
modules from the tags, so both are those of Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind

ANY, JSON, YAML, PROTOBUF = "*/*", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
ENCODINGS = (JSON, YAML, PROTOBUF)
STREAMS = tuple(f"{media};stream=watch" for media in (JSON, PROTOBUF))
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"

_PAGE = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch")
_SELECTION = (*_PAGE, "sendInitialEvents", "shardSelector", "timeoutSeconds")
_LIST = ("allowWatchBookmarks", *_SELECTION, "watch")
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = (
    *("dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents"),
    "propagationPolicy",
)
_QUERY: dict[str, tuple[str, ...]] = {
    "list": _LIST,
    "watch": _LIST,
    "watchlist": _LIST,
    "get": (),
    "post": _WRITE,
    "put": _WRITE,
    "patch": (*_WRITE, "force"),
    "delete": _DELETE,
    "deletecollection": (*_DELETE, *_SELECTION),
    "PodAttachOptions": ("container", "stderr", "stdin", "stdout", "tty"),
    "PodExecOptions": ("command", "container", "stderr", "stdin", "stdout", "tty"),
    "PodPortForwardOptions": ("ports",),
    "PodProxyOptions": ("path",),
    "ServiceProxyOptions": ("path",),
    "NodeProxyOptions": ("path",),
    "log": (
        *("container", "follow", "insecureSkipTLSVerifyBackend", "limitBytes", "previous", "sinceSeconds", "stream"),
        *("tailLines", "timestamps"),
    ),
}
"""The query parameters of an action, or of a subresource's options."""
_CUSTOM_QUERY = {"get": ("resourceVersion",), "deletecollection": _LIST}
_INTEGERS = frozenset(
    ("gracePeriodSeconds", "limit", "limitBytes", "ports", "sinceSeconds", "tailLines", "timeoutSeconds")
)
_BOOLEANS = frozenset(
    (
        *("allowWatchBookmarks", "follow", "force", "ignoreStoreReadErrorWithClusterBreakingPotential"),
        *("insecureSkipTLSVerifyBackend", "orphanDependents", "previous", "sendInitialEvents", "stderr", "stdin"),
        *("stdout", "timestamps", "tty", "watch"),
    )
)
_WORDS = {"get": "read", "post": "create", "put": "replace", "deletecollection": "delete", "watchlist": "watch"}
"""The word that begins an operation's identifier, where it is not the action."""
_MORE_RESPONSES = {
    "post": {"201": "Created", "202": "Accepted"},
    "put": {"201": "Created"},
    "patch": {"201": "Created"},
    "delete": {"202": "Accepted"},
}
STRING: Object = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Action:
    """What an operation does. `query` names the row of its parameters, if that is not the action."""

    name: str
    returns: Object
    takes: Object | None = None
    query: str = ""
    produces: tuple[str, ...] = ENCODINGS
    consumes: tuple[str, ...] = (ANY,)
    required: bool = True


def reference(name: str, v3: bool) -> Object:
    return {"$ref": f"#/components/schemas/{name}" if v3 else f"#/definitions/{name}"}


def title(text: str, first: bool = True) -> str:
    """Text in the camel case of identifiers: characters other than letters and digits are dropped."""
    out, upper = [], first
    for at, letter in enumerate(text):
        if not (letter.isalpha() or letter == "_" or (at and letter.isdigit())):
            upper = True
            continue
        out.append(letter.upper() if upper else letter)
        upper = False
    return "".join(out)


def tag(group: str, version: str = "") -> str:
    name = title((group or "core").removesuffix(".k8s.io"), False)
    return f"{name}_{title(version, False)}" if version else name


def place(group: str, version: str = "") -> str:
    """Group and version in an identifier."""
    return title((group or "core").removesuffix(".k8s.io")) + title(version)


def identifier(kind: Kind, action: str, rest: str) -> str:
    many = "Collection" if action == "deletecollection" else ""
    return f"{_WORDS.get(action, action)}{place(kind.group, kind.version)}{many}{rest}"


def operation(kind: Kind, action: Action, rest: str, gvk: tuple[str, str, str], v3: bool) -> Object:
    """An operation on a kind. `rest` is the end of its identifier; `gvk` group, version and kind of its body."""
    name = action.query or action.name
    query = (_CUSTOM_QUERY.get(name) if kind.custom else None) or _QUERY[name]
    found: Object = {
        "tags": [tag(kind.group, kind.version)],
        "operationId": identifier(kind, action.name, rest),
        "x-kubernetes-action": action.name,
        "x-kubernetes-group-version-kind": dict(zip(("group", "version", "kind"), gvk, strict=True)),
        "parameters": [parameter(each, v3) for each in sorted(query)],
        "responses": responses(action.returns, action.produces, v3),
    }
    for code, words in () if kind.custom and action.name == "patch" else _MORE_RESPONSES.get(action.name, {}).items():
        found["responses"][code] = _content(words, action.returns, action.produces, v3)
    if not v3:
        found |= {"consumes": list(action.consumes), "produces": list(action.produces), "schemes": ["https"]}
    if action.takes is not None:
        _take_body(found, action.takes, action.consumes, action.required, v3)
    return found


def patches(kind: Kind) -> tuple[str, ...]:
    return _PATCHES if kind.custom else (*_PATCHES[:2], _STRATEGIC, *_PATCHES[2:])


def responses(schema: Object, media: tuple[str, ...], v3: bool) -> Object:
    return {"200": _content("OK", schema, media, v3), "401": {"description": "Unauthorized"}}


def _content(words: str, schema: Object, media: tuple[str, ...], v3: bool) -> Object:
    if not v3:
        return {"description": words, "schema": schema}
    return {"description": words, "content": {kind: {"schema": schema} for kind in media}}


def _take_body(found: Object, schema: Object, media: tuple[str, ...], required: bool, v3: bool) -> None:
    needed = {"required": True} if required else {}
    if v3:
        found["requestBody"] = {"content": {kind: {"schema": schema} for kind in media}, **needed}
    else:
        found["parameters"].insert(0, {"name": "body", "in": "body", **needed, "schema": schema})


def parameter(name: str, v3: bool, where: str = "query") -> Object:
    kind = "boolean" if name in _BOOLEANS else "integer" if name in _INTEGERS else "string"
    shape: Object = {"type": kind, "uniqueItems": True}
    found: Object = {"name": name, "in": where}
    if where == "path":
        found["required"] = True
    return {**found, "schema": shape} if v3 else {**found, **shape}


def path_item(operations: dict[str, Object], names: tuple[str, ...], v3: bool, pretty: bool = True) -> Object:
    """A path with the parameters that all its operations share. `names` are those in the path itself."""
    lists: list[list[Object]] = [made["parameters"] for made in operations.values()]
    shared = [each for each in lists[0] if each["in"] == "query" and all(each in others for others in lists)]
    for made in operations.values():
        made["parameters"] = [each for each in made["parameters"] if each not in shared]
        if not made["parameters"]:
            del made["parameters"]
    shared += [parameter(name, v3, "path") for name in names] + [parameter("pretty", v3)] * pretty
    return {**operations, "parameters": sorted(shared, key=lambda each: each["name"])}
