"""Digests of content, `sha256:…`: computed, compared, and used as file names."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

from podfit.images.errors import BrokenImage
from podfit.images.references import digest_complaint

CHUNK = 1 << 20


class Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


def checked(digest: object) -> str:
    """A digest from an untrusted document: it becomes part of a path."""
    if not isinstance(digest, str) or (complaint := digest_complaint(digest)):
        raise BrokenImage(f"{digest!r}: {complaint if isinstance(digest, str) else 'not a digest'}")
    return digest


def hasher(digest: str) -> Hash:
    return hashlib.new(digest.partition(":")[0])


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def matches(data: bytes, digest: str) -> bool:
    running = hasher(digest)
    running.update(data)
    return running.hexdigest() == digest.partition(":")[2]


def update_from(running: Hash, file: Path) -> int:
    """Adds the contents of a file; returns its size in bytes."""
    size = 0
    with file.open("rb") as source:
        while data := source.read(CHUNK):
            running.update(data)
            size += len(data)
    return size
