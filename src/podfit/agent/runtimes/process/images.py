"""Image names to root file systems: a folder or an archive that was put into the images folder, or the host's files.

Below the images folder, `nginx:1.25` is looked for as the folder `nginx:1.25/` (a root file system) or the file
`nginx:1.25.tar` (an OCI layout or a `docker save` archive, unpacked once); a slash in a name is written `!`. The image
`host` is the node's own files. With a fallback to it, so is every image that is not there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base import ImageMissing, invalid_image
from . import layers

_NAME = re.compile(r"^[a-z0-9]+(?:[._:/-]+[A-Za-z0-9_]+)*(?:@sha256:[0-9a-f]{64})?$")
HOST = "host"
UNPACKED = ".unpacked"
PAUSE = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483 & wait $!; done")
"""What runs when neither the pod nor the image names a program: it waits, and leaves at once when told to."""


@dataclass(frozen=True, slots=True)
class Image:
    id: str
    rootfs: str = ""
    """"" is the host's."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""


class Images:
    def __init__(self, folder: Path, fallback: str) -> None:
        """`fallback`: HOST runs images that are absent on the node's own files; "" does not."""
        self._folder, self._fallback = folder, fallback
        self._known: dict[str, Image] = {}

    def find(self, name: str) -> Image:
        if name in self._known:
            return self._known[name]
        if not _NAME.match(name) or len(name) > 512:
            raise invalid_image(name)
        image = Image(id=HOST) if name == HOST else self._local(name)
        if image is None:
            if self._fallback != HOST:
                raise ImageMissing(f'failed to pull image "{name}": it is not in {self._folder}', "ErrImagePull")
            image = Image(id=HOST)
        self._known[name] = image
        return image

    def set_aside_unused(self, used: set[str]) -> list[Path]:
        """Unpacked images but those with the ids `used`, under names by which nobody finds them any more.

        Their archives stay: an image that is asked for again is unpacked again.
        """
        aside = []
        for folder in (self._folder / UNPACKED).glob("[!.]*"):
            if f"sha256:{folder.name}" not in used:
                gone = folder.with_name(f".{folder.name}.unused")
                with contextlib.suppress(OSError):
                    os.rename(folder, gone)
                aside.append(gone)
        self._known = {name: image for name, image in self._known.items() if Path(image.rootfs or "/").exists()}
        return aside

    def present(self, name: str) -> bool:
        return name == HOST or self._fallback == HOST or self._local(name) is not None

    def _local(self, name: str) -> Image | None:
        for candidate in _spellings(name):
            path = self._folder / candidate.replace("/", "!")
            if path.is_dir():
                return Image(id=f"folder:{path.name}", rootfs=str(path))
            archive = path.with_name(path.name + ".tar")
            if archive.is_file():
                return _unpacked(archive, self._folder / UNPACKED)
        return None


def _spellings(name: str) -> list[str]:
    """As given, then without the default tag and registry."""
    base = name.split("@")[0]
    short = base.removeprefix("docker.io/").removeprefix("library/")
    untagged = short[: -len(":latest")] if short.endswith(":latest") else short
    return list(dict.fromkeys([name, base, short, untagged]))


def _unpacked(archive: Path, into: Path) -> Image:
    try:
        return unpack(archive, into)
    except (OSError, ValueError, LookupError, TypeError, tarfile.TarError, EOFError, zlib.error) as error:
        raise ImageMissing(f"failed to unpack {archive.name}: {error}", "ErrImagePull") from error


def unpack(archive: Path, into: Path) -> Image:
    """Unpacks once: a folder named by the configuration's digest is complete, as it is renamed into place last."""
    with tarfile.open(archive) as tar:
        config_name, layers = _contents(tar)
        raw = _member(tar, config_name)
        digest = hashlib.sha256(raw).hexdigest()
        target = into / digest
        if not target.exists():
            partial = into / f".{digest}.{os.getpid()}"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            for layer in layers:
                _apply(tar, layer, partial)
            os.rename(partial, target)
    settings: dict[str, Any] = json.loads(raw).get("config") or {}
    return Image(
        id=f"sha256:{digest}",
        rootfs=str(target),
        entrypoint=tuple(settings.get("Entrypoint") or ()),
        command=tuple(settings.get("Cmd") or ()),
        environment=tuple(settings.get("Env") or ()),
        working_dir=settings.get("WorkingDir") or "",
        user=settings.get("User") or "",
    )


def _contents(tar: tarfile.TarFile) -> tuple[str, list[str]]:
    """The names of the configuration and the layers, from whichever of the two formats it is."""
    names = {name.removeprefix("./") for name in tar.getnames()}
    if "manifest.json" in names:
        manifest = json.loads(_member(tar, "manifest.json"))[0]
        return manifest["Config"], manifest["Layers"]
    if "index.json" not in names:
        raise ImageMissing(f"{tar.name!s} is neither an OCI layout nor a docker archive", "ErrImagePull")
    document = json.loads(_member(tar, "index.json"))
    while "manifests" in document:
        document = json.loads(_member(tar, _blob(document["manifests"][0])))
    return _blob(document["config"]), [_blob(layer) for layer in document["layers"]]


def _blob(descriptor: dict[str, Any]) -> str:
    return "blobs/" + str(descriptor["digest"]).replace(":", "/")


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    for spelling in (name, f"./{name}"):
        try:
            file = tar.extractfile(spelling)
        except KeyError:
            continue
        if file is not None:
            return file.read()
    raise ImageMissing(f"{tar.name!s} lacks {name}", "ErrImagePull")


def _apply(tar: tarfile.TarFile, layer: str, root: Path) -> None:
    source = tar.extractfile(layer)
    if source is None:
        raise ImageMissing(f"{tar.name!s} lacks {layer}", "ErrImagePull")
    layers.apply(source, root)
