"""Images on disk: content by digest, unpacked root file systems, and the list of images. Safe for several processes.

    index.json            the images, see `index`
    blobs/sha256/<hex>    layers, configurations and manifests, verified before they get their name
    rootfs/<hex>/         an unpacked image, by the digest of its configuration; renamed here when it is complete
    partial/              downloads in progress, and interrupted ones, which are resumed
    work/<token>/         temporary files of a process; removed by the next process if that one has died
    leases/<hex>/<owner>  containers that use an image, which is therefore not removed

Files get their final names only when they are complete and on disk, so a crash never leaves an incomplete image.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from podfit.images.content.compression import Hashed
from podfit.images.content.digests import CHUNK, matches
from podfit.images.content.layers import Unpacker
from podfit.images.content.manifests import Descriptor, Manifest, Settings, read_config
from podfit.images.errors import BrokenImage, ImageInUse, NoSuchImage
from podfit.images.index import Images, Index, StoredImage, find, is_id, locked
from podfit.images.references import Reference, parse
from podfit.kit.files.atomicfile import sync_folder

IMAGES = "images"
"""The folder of a data directory in which nodes and the command line store images."""
_libc = ctypes.CDLL(None, use_errno=True)


class ImageStore:
    def __init__(self, folder: Path, durable: bool = True, now: Callable[[], float] = time.time) -> None:
        """`durable`: acknowledged changes survive a power loss. Disabled only where that does not matter (tests)."""
        self.folder, self._durable, self._now = folder, durable, now
        self._index = Index(folder, durable)

    def prepare(self) -> None:
        """Creates the folders, and removes unfinished files of dead processes."""
        for name in ("blobs/sha256", "blobs/sha512", "rootfs", "partial", "work", "leases"):
            (self.folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(self.folder / "work.lock"):
            for folder in (self.folder / "work").iterdir():
                with locked(folder / "lock", wait=False) as free:
                    if free:
                        shutil.rmtree(folder, ignore_errors=True)

    # --- images
    def images(self) -> list[StoredImage]:
        return [self._placed(image) for image in self._index.read().values() if self._root(image.id).is_dir()]

    def find(self, name: str) -> StoredImage | None:
        """Finds an image by a reference or an id. An image whose files were deleted counts as missing."""
        found = find(self._index.read(), name)
        return self._placed(found) if found is not None and self._root(found.id).is_dir() else None

    def _placed(self, image: StoredImage) -> StoredImage:
        return replace(image, rootfs=str(self._root(image.id)))

    def _root(self, image_id: str) -> Path:
        return self.folder / "rootfs" / image_id.partition(":")[2]

    def add(self, manifest: Manifest, digest: str, names: Iterable[Reference], loaded: bool = False) -> StoredImage:
        """Unpacks an image whose blobs are present and lists it. `digest`: of the manifest, "" without one.

        A tag that another image had is moved to this one. Call it while `collecting`.
        """
        config = read_config(self.blob(manifest.config.digest).read_bytes())
        if config.diff_ids and len(config.diff_ids) != len(manifest.layers):
            raise BrokenImage(f"the image has {len(manifest.layers)} layers and {len(config.diff_ids)} diff_ids")
        named, target = list(names), self._root(manifest.config.digest)
        with self._workspace() as folder:
            if not target.is_dir():
                self._unpack(manifest, config.diff_ids, folder / "rootfs")
            with self._index.exclusive() as images:
                if not target.is_dir():
                    os.rename(folder / "rootfs", target)
                before = dict(images)
                made = _listed(images, manifest, digest, named, config.settings, self._now(), loaded)
                if images != before:
                    self._index.write(images)
        return self._placed(made)

    def _unpack(self, manifest: Manifest, diff_ids: tuple[str, ...], root: Path) -> None:
        root.mkdir()
        root.chmod(0o755)  # regardless of the umask: containers' users access it
        unpacker = Unpacker(root)
        for at, layer in enumerate(manifest.layers):
            unpacker.apply_file(self.blob(layer.digest), diff_ids[at] if diff_ids else "")
        if self._durable:
            _sync(root)

    def remove(self, name: str) -> StoredImage:
        """Removes a tag, and with its last tag the image. By id or digest, the image with all its tags."""
        with self._workspace() as folder, self._index.exclusive() as images:
            image = find(images, name)
            if image is None:
                raise NoSuchImage(f"no such image: {name}")
            whole = is_id(name) or "@" in name
            left = () if whole else tuple(tag for tag in image.tags if tag != parse(name).tagged)
            if left:
                images[image.id] = replace(image, tags=left)
                self._index.write(images)
                return image
            self._unlist(images, image)
            with contextlib.suppress(FileNotFoundError):
                # Renamed before it is deleted, so that it is never found half deleted.
                os.rename(self._root(image.id), folder / "rootfs")
        with contextlib.suppress(OSError):
            (self.folder / "leases" / image.hex).rmdir()
        self.sweep()
        return image

    def _unlist(self, images: Images, image: StoredImage) -> None:
        """A container that acquired the image meanwhile keeps it: leases are counted before and after."""
        self._refuse_in_use(image)
        self._index.write({key: entry for key, entry in images.items() if key != image.id})
        try:
            self._refuse_in_use(image)
        except ImageInUse:
            self._index.write(images)
            raise

    def _refuse_in_use(self, image: StoredImage) -> None:
        if owners := self.leases(image.id):
            count = "1 container runs" if len(owners) == 1 else f"{len(owners)} containers run"
            raise ImageInUse(f"image {image.tags[0] if image.tags else image.id} is in use: {count} on it")

    # --- leases
    def lease(self, image_id: str, owner: str) -> StoredImage:
        """Keeps an image for `owner` (a container) until it is released. Raises NoSuchImage."""
        folder = self.folder / "leases" / image_id.partition(":")[2]
        with contextlib.suppress(FileNotFoundError):
            folder.mkdir(exist_ok=True, mode=0o700)
            (folder / owner).touch()
        # The list is read after the lease is written, and a remover checks leases after it has written the list.
        found = self.find(image_id)
        if found is None:
            self.release(image_id, owner)
            raise NoSuchImage(f"no such image: {image_id}")
        return found

    def release(self, image_id: str, owner: str) -> None:
        (self.folder / "leases" / image_id.partition(":")[2] / owner).unlink(missing_ok=True)

    def leases(self, image_id: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self.folder / "leases" / image_id.partition(":")[2]))
        return []

    def keep_leases(self, prefix: str, owners: Collection[str]) -> None:
        """Of the leases held by `prefix-…`, drops all except those of `owners`: some owners may have ended
        unnoticed.
        """
        kept = {f"{prefix}-{owner}" for owner in owners}
        for lease in (self.folder / "leases").glob(f"*/{prefix}-*"):
            if lease.name not in kept:
                lease.unlink(missing_ok=True)

    # --- content
    def blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")

    def has(self, digest: str) -> bool:
        return self.blob(digest).is_file()

    def write(self, data: bytes, digest: str) -> None:
        if not matches(data, digest):
            raise BrokenImage(f"content of {len(data)} bytes is not {digest}")
        with self._workspace() as folder:
            file = folder / "blob"
            file.write_bytes(data)
            self.settle(file, digest)

    def ingest(self, source: IO[bytes], digest: str = "") -> Descriptor:
        """Copies a stream. `digest`: its expected digest; "" accepts any."""
        stream = Hashed(source, digest or "sha256:")
        with self._workspace() as folder:
            file = folder / "blob"
            with file.open("wb") as into:
                while data := stream.read(CHUNK):
                    into.write(data)
            found = f"{(digest or 'sha256:').partition(':')[0]}:{stream.rest()}"
            if digest and found != digest:
                raise BrokenImage(f"{digest} is damaged: its content has the digest {found}")
            self.settle(file, found)
        return Descriptor(found, stream.size)

    def settle(self, file: Path, digest: str) -> None:
        """Renames a file to its digest. The caller has verified it."""
        target = self.blob(digest)
        if self._durable:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        os.replace(file, target)
        if self._durable:
            sync_folder(target.parent)

    def partial(self, digest: str) -> Path:
        return self.folder / "partial" / digest.replace(":", "-")

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """A context in which blobs are collected for an image that is not listed yet: they are not
        garbage-collected."""
        with locked(self.folder / "blobs.lock", shared=True):
            yield

    def sweep(self, partials: bool = False) -> None:
        """Deletes content that no image needs, unless content is being collected right now."""
        with locked(self.folder / "blobs.lock", wait=False) as free:
            if not free:
                return
            needed = {digest for image in self._index.read().values() for digest in (image.id, *image.layers)}
            for file in (self.folder / "blobs").glob("*/*"):
                if f"{file.parent.name}:{file.name}" not in needed:
                    file.unlink(missing_ok=True)
            for file in (self.folder / "partial").iterdir() if partials else ():
                file.unlink(missing_ok=True)
            listed = {image.hex for image in self._index.read().values()}
            for folder in (self.folder / "rootfs").iterdir():
                if folder.name not in listed:
                    shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _workspace(self) -> Iterator[Path]:
        """A temporary folder of this process; if the process dies, the next one removes it."""
        folder = self.folder / "work" / secrets.token_hex(8)
        with contextlib.ExitStack() as held:
            with locked(self.folder / "work.lock", shared=True):
                folder.mkdir(mode=0o700)
                held.enter_context(locked(folder / "lock"))
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _listed(
    images: Images,
    manifest: Manifest,
    digest: str,
    names: list[Reference],
    settings: Settings,
    now: float,
    loaded: bool,
) -> StoredImage:
    """Adds an image to the list, or names to an existing one."""
    image_id, old = manifest.config.digest, images.get(manifest.config.digest)
    tags = dict.fromkeys((*(old.tags if old else ()), *(name.tagged for name in names if name.tagged)))
    digests = dict.fromkeys((*(name.at(digest) for name in names if digest), *(old.digests if old else ())))
    _untag(images, tags)
    made = images[image_id] = StoredImage(
        id=image_id,
        tags=tuple(tags),
        digests=tuple(digests),
        layers=tuple(layer.digest for layer in manifest.layers),
        size_bytes=manifest.config.size + sum(layer.size for layer in manifest.layers),
        added_at=old.added_at if old else now,
        settings=settings,
        loaded=loaded and (old is None or old.loaded),
    )
    return made


def _untag(images: Images, tags: Iterable[str]) -> None:
    moved = set(tags)
    for image in list(images.values()):
        if moved & set(image.tags):
            images[image.id] = replace(image, tags=tuple(tag for tag in image.tags if tag not in moved))


def _sync(folder: Path) -> None:
    """Syncs all unpacked files before the folder gets its final name: a crash leaves no empty files in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(descriptor)
