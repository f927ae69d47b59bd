"""Compression of layers: plain, gzip or zstd, detected by their first bytes.

zstd needs Python 3.14, or the package `zstandard` on older ones; without it, the error for such an image names the
package.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from podfit.images.content.digests import hasher
from podfit.images.errors import BrokenImage

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_DRAIN = 1 << 20


class Hashed:
    """A stream that computes its digest while it is read."""

    def __init__(self, source: IO[bytes], digest: str = "sha256:") -> None:
        self._source, self._hash, self.size = source, hasher(digest), 0

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._hash.update(data)
        self.size += len(data)
        return data

    def rest(self) -> str:
        """Reads to the end; the hexadecimal digest of all of it."""
        while self.read(_DRAIN):
            pass
        return self._hash.hexdigest()


@contextlib.contextmanager
def unpacked(file: Path) -> Iterator[IO[bytes]]:
    """The content of a layer. Raises BrokenImage if it cannot be decompressed."""
    with file.open("rb") as raw:
        first = raw.read(4)
        raw.seek(0)
        try:
            if first.startswith(_GZIP):
                with gzip.GzipFile(fileobj=raw) as plain:
                    yield cast("IO[bytes]", plain)
            elif first == _ZSTD:
                with _zstd(raw) as plain:
                    yield plain
            else:
                yield raw
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise BrokenImage(f"a layer is damaged: {error}") from error


def _zstd(raw: IO[bytes]) -> Any:
    for module, opener in (("compression.zstd", "ZstdFile"), ("zstandard", "open")):
        with contextlib.suppress(ImportError):
            return getattr(importlib.import_module(module), opener)(raw, "rb")
    raise BrokenImage("a layer is packed with zstd: install the Python package zstandard, or use Python 3.14 or newer")
