"""JSON that this process encoded from its own objects."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode


class Encoded(bytes):
    """No key comes twice in it: whoever reads it in this process need not look for that. Elsewhere it is bytes."""

    __slots__ = ()


def encoded(value: Any) -> Encoded:
    return Encoded(_encode(value))
