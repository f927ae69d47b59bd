"""The list of images in a store: one file, replaced atomically, shared by processes.

Readers detect a change by the file's identity and need no lock. Writers hold the lock while they read and replace it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from podfit.images.content.manifests import Settings
from podfit.images.errors import ImageError
from podfit.images.references import InvalidReference, parse
from podfit.kit.files.atomicfile import write_atomic

_ID = re.compile(r"(?:sha256:)?([0-9a-f]{12,64})")


class StoredImage(Struct, frozen=True):
    id: str
    """`sha256:…`, the digest of its configuration."""
    rootfs: str = ""
    """The folder of its unpacked root file system. Set by the store."""
    tags: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    """`registry/repository@sha256:…`."""
    layers: tuple[str, ...] = ()
    size_bytes: int = 0
    """The size of its compressed layers and its configuration."""
    added_at: float = 0.0
    settings: Settings = Settings()
    loaded: bool = False
    """Loaded from an archive: it may be in no registry, so it is not deleted to free disk space."""

    @property
    def hex(self) -> str:
        return self.id.partition(":")[2]

    @property
    def reported(self) -> str:
        """The imageID in a pod's status."""
        return self.digests[0] if self.digests else self.id


Images = dict[str, StoredImage]
_decoder: msgspec.json.Decoder[Images] = msgspec.json.Decoder(Images)


class Index:
    def __init__(self, folder: Path, durable: bool = True) -> None:
        self._file, self._lock, self._durable = folder / "index.json", folder / "index.lock", durable
        self._kept: tuple[tuple[int, int, int], Images] | None = None

    def read(self) -> Images:
        """The images by id. Returns the same object until the file changes: read only."""
        try:
            found = os.stat(self._file)
        except FileNotFoundError:
            return {}
        seen, kept = (found.st_ino, found.st_mtime_ns, found.st_size), self._kept
        if kept is None or kept[0] != seen:
            kept = self._kept = (seen, self._load())
        return kept[1]

    def _load(self) -> Images:
        try:
            return _decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            raise ImageError(f"{self._file} is damaged: {error}. Delete it to start with no images") from error

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Images]:
        """A copy to modify and write. Other processes wait for the lock, which is held for milliseconds."""
        with locked(self._lock):
            yield dict(self._load())

    def write(self, images: Images) -> None:
        write_atomic(self._file, msgspec.json.encode(images), durable=self._durable)


def is_id(name: str) -> bool:
    return _ID.fullmatch(name) is not None


def find(images: Images, name: str) -> StoredImage | None:
    """Finds an image by a reference, or by an id, of which 12 digits are sufficient."""
    if (found := _ID.fullmatch(name)) is not None:
        matching = [image for image in images.values() if image.hex.startswith(found[1])]
        if len(matching) == 1:
            return matching[0]
    try:
        reference = parse(name)
    except InvalidReference:
        return None
    if reference.digest:
        return next((image for image in images.values() if reference.pinned in image.digests), None)
    return next((image for image in images.values() if reference.tagged in image.tags), None)


@contextlib.contextmanager
def locked(file: Path, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Holds a lock between processes, which the kernel releases when its holder exits. False if another process holds
    it.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)
