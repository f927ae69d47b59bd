"""JSON that this process encoded from its own objects."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


class Encoded(bytes):
    """Bytes of JSON without duplicate keys: readers in this process need not check for them."""

    __slots__ = ()


def encoded(value: Any) -> Encoded:
    return Encoded(_encode(value))
