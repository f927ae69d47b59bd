"""Builds small images for tests: layers from dictionaries of files, packed as in registries and archives."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podfit.images.content.digests import sha256
from podfit.images.content.manifests import OCI_INDEX, OCI_MANIFEST, this_platform

Files = Mapping[str, bytes | str]
"""Content, or the target of a symbolic link; "=name" is a hard link. A name that ends in a slash is a folder."""
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def layer(files: Files) -> bytes:
    """A layer as an uncompressed tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name.rstrip("/"))
            member.mode = 0o755
            if isinstance(content, str):
                member.type = tarfile.LNKTYPE if content.startswith("=") else tarfile.SYMTYPE
                member.linkname = content.removeprefix("=")
                archive.addfile(member)
            elif name.endswith("/"):
                member.type = tarfile.DIRTYPE
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@dataclass
class Built:
    """An image with all documents and blobs that a registry stores."""

    manifest: bytes
    config: bytes
    layers: list[bytes]
    """Compressed."""
    blobs: dict[str, bytes] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return sha256(self.config)

    @property
    def digest(self) -> str:
        return sha256(self.manifest)


def build(layers: Sequence[Files], settings: Mapping[str, Any] | None = None) -> Built:
    plain = [layer(files) for files in layers]
    packed = [gzip.compress(item, mtime=0) for item in plain]
    config = json.dumps(
        {
            "architecture": this_platform().architecture,
            "os": "linux",
            "config": dict(settings or {}),
            "rootfs": {"type": "layers", "diff_ids": [sha256(item) for item in plain]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": _descriptor(config, _CONFIG),
            "layers": [_descriptor(item, _LAYER) for item in packed],
        }
    ).encode()
    return Built(manifest, config, packed, {sha256(item): item for item in (config, *packed)})


def _descriptor(content: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": sha256(content), "size": len(content)}


def index_of(images: Mapping[str, Built]) -> bytes:
    """An image index with one entry per architecture, as `linux/…`."""
    listed = [
        {
            **_descriptor(image.manifest, OCI_MANIFEST),
            "platform": {"os": "linux", "architecture": architecture},
        }
        for architecture, image in images.items()
    ]
    return json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": listed}).encode()


def busybox(settings: Mapping[str, Any] | None = None, **files: bytes) -> Built:
    """An image with busybox's shell and tools, and these files in its root."""
    program = shutil.which("busybox")
    assert program is not None, "busybox is not installed"
    tools = ("sh", "sleep", "cat", "echo", "ls", "id", "pwd", "httpd", "env", "true", "false", "kill", "touch", "wget")
    content: dict[str, bytes | str] = {"bin/busybox": Path(program).read_bytes(), "tmp/": b"", "etc/passwd": _USERS}
    content |= {f"bin/{tool}": "busybox" for tool in tools}
    return build([content, files], {"Cmd": ["sh", "-c", "sleep 1000"], **(settings or {})})


_USERS = b"root:x:0:0:root:/root:/bin/sh\napp:x:1234:1234:app:/tmp:/bin/sh\n"


def oci_archive(file: Path, images: Mapping[str, Built]) -> Path:
    """An archive of images by name; "" for an image without one."""
    entries: dict[str, bytes | str] = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    listed = []
    for name, image in images.items():
        named = {"annotations": {"io.containerd.image.name": name}} if name else {}
        listed.append({**_descriptor(image.manifest, OCI_MANIFEST), **named})
        for content in (image.manifest, *image.blobs.values()):
            entries["blobs/" + sha256(content).replace(":", "/")] = content
    entries["index.json"] = json.dumps({"schemaVersion": 2, "manifests": listed}).encode()
    file.write_bytes(layer(entries))
    return file


def docker_archive(file: Path, name: str, image: Built) -> Path:
    """An archive in the older format of `docker save`: uncompressed layers, each in a folder of its own."""
    entries: dict[str, bytes | str] = {f"{image.id[7:]}.json": image.config}
    paths = [f"{at}/layer.tar" for at in range(len(image.layers))]
    entries |= {path: gzip.decompress(packed) for path, packed in zip(paths, image.layers, strict=True)}
    listed = [{"Config": f"{image.id[7:]}.json", "RepoTags": [name], "Layers": paths}]
    entries["manifest.json"] = json.dumps(listed).encode()
    file.write_bytes(layer(entries))
    return file
