"""Loads images from a file: an OCI layout in a tar archive, or the output of `docker save`, plain or gzipped."""

from __future__ import annotations

import contextlib
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from podfit.images.content.digests import matches, sha256
from podfit.images.content.manifests import (
    MAX_DOCUMENT,
    Descriptor,
    Manifest,
    Platform,
    choose,
    descriptor,
    document,
    is_index,
    read_manifest,
    this_platform,
)
from podfit.images.errors import BrokenImage
from podfit.images.index import StoredImage
from podfit.images.references import InvalidReference, Reference, parse
from podfit.images.store import ImageStore

_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, UnicodeError)


class _Archive:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._members = {member.name.removeprefix("./"): member for member in tar}

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def stream(self, name: str) -> IO[bytes]:
        member = self._members.get(name)
        file = self._tar.extractfile(member) if member is not None else None
        if file is None:
            raise BrokenImage(f"the archive lacks {name}")
        return file

    def read(self, name: str) -> bytes:
        data = self.stream(name).read(MAX_DOCUMENT + 1)
        if len(data) > MAX_DOCUMENT:
            raise BrokenImage(f"{name} has more than {MAX_DOCUMENT} bytes")
        return data


def load(store: ImageStore, file: Path, tag: str = "", platform: Platform | None = None) -> list[StoredImage]:
    """Adds every image of an archive to the store. `tag`: a name for the image, instead of those in the archive."""
    named = [parse(tag)] if tag else []
    with _opened(file) as archive, store.collecting():
        if "index.json" in archive:
            found = list(_oci(store, archive, named, platform or this_platform()))
        elif "manifest.json" in archive:
            found = list(_docker(store, archive, named))
        else:
            raise BrokenImage(f"{file.name} is neither an OCI layout nor a Docker archive")
    if not found:
        raise BrokenImage(f"{file.name} holds no image")
    return found


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[_Archive]:
    try:
        with tarfile.open(file) as tar:
            yield _Archive(tar)
    except _DAMAGED as error:
        raise BrokenImage(f"{file.name} cannot be read: {error}") from error


# --- OCI
def _oci(store: ImageStore, archive: _Archive, named: list[Reference], platform: Platform) -> Iterator[StoredImage]:
    index = document(archive.read("index.json"), "index.json")
    if not is_index(index):
        raise BrokenImage("index.json lists no manifests")
    entries = [manifest for manifest in index["manifests"] if isinstance(manifest, dict)]
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries:
        by_name.setdefault(_annotated(entry), []).append(entry)
    if len(by_name) > 1 and named:
        raise BrokenImage("the archive holds several images: they cannot all have one name")
    for name, same in by_name.items():
        chosen = descriptor(same[0]) if len(same) == 1 else choose({"manifests": same}, platform)
        names = named or ([parse(name)] if name else _docker_names(archive))
        yield _from_oci(store, archive, chosen, _required(names), platform)


def _from_oci(
    store: ImageStore, archive: _Archive, chosen: Descriptor, names: list[Reference], platform: Platform
) -> StoredImage:
    outer = chosen.digest
    raw = archive.read(_path(chosen))
    found = document(raw, "a manifest")
    if is_index(found):
        chosen = choose(found, platform)
        raw = archive.read(_path(chosen))
        found = document(raw, "a manifest")
    if not matches(raw, chosen.digest):
        raise BrokenImage(f"{chosen.digest} is damaged: its content has another digest")
    manifest = read_manifest(found)
    for part in (manifest.config, *manifest.layers):
        if not store.has(part.digest):
            store.ingest(archive.stream(_path(part)), part.digest)
    return store.add(manifest, outer, names, loaded=True)


def _path(part: Descriptor) -> str:
    return "blobs/" + part.digest.replace(":", "/")


def _annotated(entry: Mapping[str, Any]) -> str:
    """The full name of the image. Some tools write only a tag there, which is not a name."""
    annotations = entry.get("annotations")
    found = annotations if isinstance(annotations, dict) else {}
    for key in _NAMES:
        name = found.get(key)
        if isinstance(name, str) and (key == _NAMES[0] or "/" in name or ":" in name):
            with contextlib.suppress(InvalidReference):
                return str(parse(name))
    return ""


# --- Docker
def _docker(store: ImageStore, archive: _Archive, named: list[Reference]) -> Iterator[StoredImage]:
    listed = _docker_list(archive)
    if len(listed) > 1 and named:
        raise BrokenImage("the archive holds several images: they cannot all have one name")
    for entry in listed:
        config, layers = entry.get("Config"), entry.get("Layers")
        if not isinstance(config, str) or not isinstance(layers, list):
            raise BrokenImage("manifest.json names no configuration or no layers")
        names = _required(named or _references(entry))
        raw = archive.read(config)
        store.write(raw, sha256(raw))
        parts = tuple(store.ingest(archive.stream(str(layer))) for layer in layers)
        yield store.add(Manifest(Descriptor(sha256(raw), len(raw)), parts), "", names, loaded=True)


def _docker_list(archive: _Archive) -> list[Mapping[str, Any]]:
    try:
        listed = msgspec.json.decode(archive.read("manifest.json"))
    except msgspec.DecodeError as error:
        raise BrokenImage(f"manifest.json is not valid JSON: {error}") from error
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _docker_names(archive: _Archive) -> list[Reference]:
    listed = _docker_list(archive) if "manifest.json" in archive else []
    return _references(listed[0]) if len(listed) == 1 else []


def _references(entry: Mapping[str, Any]) -> list[Reference]:
    found = []
    for name in entry.get("RepoTags") or ():
        with contextlib.suppress(InvalidReference):
            found.append(parse(str(name)))
    return found


def _required(names: list[Reference]) -> list[Reference]:
    if not names:
        raise BrokenImage("the archive does not name its image: name it with --tag")
    return names
