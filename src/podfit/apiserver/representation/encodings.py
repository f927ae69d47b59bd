"""Encodings of a list: compact JSON, indented JSON, YAML, protobuf. Each encodes item by item, so that a long list can
be written in slices.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from podfit.apiserver.representation import wire

_DEEPER = b"\n" + b" " * 4


class Encoding(Protocol):
    step: int
    """The number of items in a small step."""
    between: bytes
    """The separator of two items."""

    def item(self, data: bytes) -> bytes:
        """Encodes an item that is given as compact JSON."""

    def frame(self, head: bytes, tail: bytes, empty: bool) -> tuple[bytes, bytes]:
        """Encodes the parts around the items; `head` and `tail` are given as compact JSON."""


class Compact:
    step = 32
    between = b","

    def item(self, data: bytes) -> bytes:
        return data

    def frame(self, head: bytes, tail: bytes, empty: bool) -> tuple[bytes, bytes]:
        return head, tail


class Joined(Compact):
    """Concatenates items without a separator."""

    between = b""


class Indented:
    """Indented by two spaces per level."""

    step = 8
    between = b"," + _DEEPER

    def item(self, data: bytes) -> bytes:
        # A JSON string contains no line breaks.
        return msgspec.json.format(data, indent=2).replace(b"\n", _DEEPER)

    def frame(self, head: bytes, tail: bytes, empty: bool) -> tuple[bytes, bytes]:
        whole = msgspec.json.format(head + tail, indent=2)
        if empty:
            return whole, b""
        return whole.removesuffix(b"[]\n}") + b"[" + _DEEPER, b"\n  ]\n}"


class Yaml:
    step = 1
    between = b""

    def item(self, data: bytes) -> bytes:
        return yaml_of([wire.decode(data)])

    def frame(self, head: bytes, tail: bytes, empty: bool) -> tuple[bytes, bytes]:
        value: dict[str, Any] = wire.decode(head + tail)
        if empty:
            return yaml_of(value), b""
        # Keys are sorted, and the items are placed at their key.
        name = "items" if "items" in value else "rows"
        before = {key: value[key] for key in value if key < name}
        behind = {key: value[key] for key in value if key > name}
        return b"%b%b:\n" % (yaml_of(before), name.encode()), yaml_of(behind) if behind else b""


def yaml_of_json(data: bytes) -> bytes:
    return yaml_of(wire.decode(data))


def yaml_of(value: Any) -> bytes:
    import yaml  # YAML is rarely requested, and the module is slow to load.

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(value, Dumper=dumper, default_flow_style=False, allow_unicode=True)
    return text.encode()


COMPACT, INDENTED, JOINED = Compact(), Indented(), Joined()
