"""Short names for templates: the words behind `pod-template-hash` and `controller-revision-hash`. Pure."""

from __future__ import annotations

import json

from podfit.api.status import Object

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no look-alikes: a hash never spells a word."""


def fnv32a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def safe_encode(text: str) -> str:
    return "".join(_ALPHABET[ord(letter) % len(_ALPHABET)] for letter in text)


def template_hash(template: Object, collisions: int = 0) -> str:
    """The same for equal templates, whatever the order of their keys."""
    data = json.dumps(template, sort_keys=True, separators=(",", ":")).encode()
    # Padded, so that the number's length does not vary: names built on it stay equally long.
    return safe_encode(f"{fnv32a(data + (str(collisions).encode() if collisions else b'')):010d}")
