"""Short hashes for templates: `pod-template-hash` and `controller-revision-hash`. Pure."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.godump import go_dump

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
    """Kubernetes' name for a pod template; `collisions` distinguishes templates with the same name."""
    data = go_dump(template, type_named("PodTemplateSpec")).encode()
    if collisions:
        data += collisions.to_bytes(8, "little")
    return safe_encode(str(fnv32a(data)))
