"""Reads request bodies as objects: media types, decoding, defaults."""

from __future__ import annotations

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.schema.decoding.decode import decode, take
from podfit.api.schema.decoding.yaml_nodes import YamlError
from podfit.api.schema.decoding.yamls import parse_yaml
from podfit.api.schema.types import Struct
from podfit.api.status import ApiError, bad_request
from podfit.apiserver.calls import Call
from podfit.apiserver.writing import custom_schema
from podfit.apiserver.writing.options import media_type

_ACCEPTED = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


def read_object(call: Call, kind: Kind, validation: str) -> Object:
    """Decodes the body as an object of `kind`, and sets defaults."""
    obj = read_body(call, kind, validation)
    custom_schema.default(kind, obj)
    return obj


def read_body(call: Call, kind: Kind | Struct, validation: str, struct: Struct | None = None) -> Object:
    """Decodes the body. `struct`: the type of the kind, if it is not the native one."""
    request = call.request
    content_type = _content_type(request.headers.get("content-type", ""))
    if (
        struct is None
        and not isinstance(request.sent, bytes)
        and content_type == "application/json"
        and isinstance(kind, Kind)
    ):
        taken = take(request.sent, kind)
        if taken is not None:
            return taken
    decoded = decode(request.body, kind, field_validation=validation, content_type=content_type, struct=struct)
    call.warnings += decoded.warnings
    return decoded.obj


async def received(call: Call, kind: Kind | Struct, validation: str, struct: Struct | None = None) -> Object:
    """Decodes the body, in a thread if it is large."""
    return await call.offload(lambda: read_body(call, kind, validation, struct))


def json_body(call: Call) -> bytes:
    """The optional body as JSON; YAML is converted."""
    body = call.request.body
    if body and _content_type(call.request.headers.get("content-type", "")) == "application/yaml":
        try:
            return msgspec.json.encode(parse_yaml(body)[0])
        except YamlError as error:
            raise bad_request(str(error)) from None
    return body


def _content_type(header: str) -> str:
    media = media_type(header)
    if media in ("", "application/json"):
        return "application/json"
    if media in ("application/yaml", "application/x-yaml", "text/yaml"):
        return "application/yaml"
    raise ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(_ACCEPTED),
    )


def check_name(obj: Object, name: str, namespace: str) -> None:
    """Raises an error if the name in the body of an update does not match the path."""
    meta = obj.get("metadata") or {}
    if not meta.get("name"):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    given = meta.get("namespace") or ""
    if given and namespace and given != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if meta["name"] != name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
