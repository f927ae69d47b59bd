"""Encodes and decodes protobuf bodies as client-go does."""

from __future__ import annotations

import json
from typing import Any

from podfit.api.protobuf import _type_meta, _wire, to_json
from podfit.api.protobuf.table import MAGIC, root


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def protobuf_pod(word: str) -> bytes:
    """A pod named p with one container and a resize policy for cpu, as client-go encodes it."""
    policy = field(1, b"cpu") + field(2, word.encode())
    container = field(1, b"c") + field(2, b"busybox") + field(23, policy)
    raw = field(1, field(1, b"p")) + field(2, field(2, container))
    return b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"Pod")) + field(2, raw)


def read_body(body: bytes) -> Any:
    """A response converted to JSON: an object, or a list with its items."""
    assert body.startswith(MAGIC), body[:20]
    envelope = {number: value for number, _, value in _wire(body[len(MAGIC) :])}
    api_version, kind = _type_meta(envelope[1])
    if not kind.endswith("List") or root(api_version, kind):
        return json.loads(to_json(body))
    read: dict[str, Any] = {"kind": kind, "apiVersion": api_version, "items": []}
    for number, _, value in _wire(envelope[2]):
        what = ("v1", "Status") if number == 1 else (api_version, kind.removesuffix("List"))
        inner = field(1, value) if number == 1 else value
        whole = MAGIC + field(1, field(1, what[0].encode()) + field(2, what[1].encode())) + field(2, inner)
        found = json.loads(to_json(whole))
        if number == 1:
            read["metadata"] = found.get("metadata", {})
        else:
            read["items"].append({key: found[key] for key in found if key not in ("kind", "apiVersion")})
    return read


def read_event(frame: bytes) -> tuple[str, Any]:
    """The type and the object of a watch event, given without its length prefix."""
    fields = {number: value for number, _, value in _wire(frame)}
    inner = {number: value for number, _, value in _wire(fields[2])}
    return fields[1].decode(), read_body(inner[1])
