"""The images on this node that VMs start from: an index by reference, and the extracted files by image ID."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from podfit.cri import api_pb2 as cri
from podfit.images.references import with_default_tag
from podfit.kit.atomicfile import write_atomic
from podfit.vm.images import Guests, ImageMissing, ImageUnusable
from podfit.vm.records import Image


@dataclass
class Known:
    id: str
    digest: str
    size: int
    tags: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)


class Images:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = folder / "index.json"
        self._guests = Guests(folder / "guests")
        self.known: dict[str, Known] = {}
        if self._index.exists():
            self.known = {one["id"]: Known(**one) for one in json.loads(self._index.read_bytes())}

    def _save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self._index, json.dumps([asdict(one) for one in self.known.values()]).encode())

    def find(self, reference: str) -> Known | None:
        """By ID, by tag, or by digest."""
        if reference in self.known:
            return self.known[reference]
        name = with_default_tag(reference)
        for one in self.known.values():
            if name in one.tags or (one.digest and reference.endswith(f"@{one.digest}")):
                return one
        return None

    def guest(self, spec: cri.ImageSpec, annotations: Mapping[str, str]) -> Image:
        """Raises ImageMissing, ImageUnusable."""
        found = self.find(spec.image)
        if found is None:
            raise ImageMissing(f"the image {spec.user_specified_image or spec.image!r} is not on this node")
        return self._guests.image(found.id, found.labels, annotations)

    def remove(self, reference: str) -> None:
        found = self.find(reference)
        if found is not None:
            del self.known[found.id]
            self._save()
            self._guests.remove(found.id)

    def load(self, archive: Path) -> list[Known]:
        """Images of an OCI archive, under the names that it gives them. Raises ImageUnusable."""
        try:
            with tarfile.open(archive) as tar:
                index = _json(tar, "index.json")
                return [self._add(tar, entry) for entry in index["manifests"]]
        except (tarfile.TarError, OSError, KeyError, ValueError) as error:
            raise ImageUnusable(f"{archive} is no OCI archive: {error}") from error

    def _add(self, tar: tarfile.TarFile, entry: Mapping[str, Any]) -> Known:
        manifest = _json(tar, _blob(entry["digest"]))
        config = _json(tar, _blob(manifest["config"]["digest"]))
        notes = entry.get("annotations", {})
        name = notes.get("io.containerd.image.name") or notes.get("org.opencontainers.image.ref.name", "")
        size = sum(layer["size"] for layer in manifest["layers"])
        id = manifest["config"]["digest"]
        known = self.known.get(id) or Known(id, entry["digest"], size)
        known.labels = dict(config.get("config", {}).get("Labels") or {})
        if not self._guests.has(id):
            self._guests.extract(id, _layers(tar, manifest))
        for other in self.known.values():
            other.tags = [tag for tag in other.tags if tag != with_default_tag(name)]
        if name:
            known.tags = [*(tag for tag in known.tags if tag != with_default_tag(name)), with_default_tag(name)]
        self.known[id] = known
        self._save()
        return known


def _blob(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _json(tar: tarfile.TarFile, name: str) -> dict[str, Any]:
    file = tar.extractfile(name)
    found = json.loads(file.read()) if file is not None else None
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no JSON object")
    return found


def _layers(tar: tarfile.TarFile, manifest: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    for layer in manifest["layers"]:
        file = tar.extractfile(_blob(layer["digest"]))
        if file is None:
            raise ValueError(f"no layer {layer['digest']}")
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        if layer["digest"] != f"sha256:{digest}":
            raise ValueError(f"the layer {layer['digest']} is corrupt")
        file.seek(0)
        yield file
