"""Builds container images from busybox, for runtimes that cannot reach a registry: one OCI archive with several names.

The archive is what `ctr images import` and `podfit image load` read. All images share one layer: busybox with its
commands, and links so that the host's /usr may be mounted (a Python then runs in them).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PAUSE = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483 & wait $!; done")
FOLDERS = ("bin", "dev", "etc", "proc", "sys", "tmp", "usr", "var", "root")
LINKS = {"lib": "usr/lib", "lib64": "usr/lib64", "sbin": "bin"}
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}


@dataclass(frozen=True)
class ImageSource:
    name: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ("/bin/sh",)
    environment: tuple[str, ...] = ("PATH=/bin:/usr/bin",)
    user: str = ""
    stop_signal: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def _layer(busybox: Path) -> bytes:
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, timeout=30, check=True).stdout.split()
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:

        def add(name: str, mode: int, kind: bytes = tarfile.REGTYPE, data: bytes = b"", target: str = "") -> None:
            entry = tarfile.TarInfo(name)
            entry.mode, entry.type, entry.size, entry.linkname = mode, kind, len(data), target
            archive.addfile(entry, io.BytesIO(data))

        for folder in FOLDERS:
            add(folder, 0o1777 if folder == "tmp" else 0o755, tarfile.DIRTYPE)
        add("bin/busybox", 0o755, data=busybox.read_bytes())
        for name in sorted(set(names) - {"busybox"}):
            add(f"bin/{name}", 0o755, tarfile.SYMTYPE, target="busybox")
        for name, target in LINKS.items():
            add(name, 0o777, tarfile.SYMTYPE, target=target)
        for name, text in FILES.items():
            add(name, 0o644, data=text.encode())
    return raw.getvalue()


@dataclass(frozen=True)
class Layout:
    """The content of images as an OCI layout."""

    manifests: dict[str, str]
    """Digests of manifests by the images' names."""
    blobs: dict[str, bytes]
    """By digest: manifests, configurations, layers."""
    index: bytes


def layout(images: list[ImageSource], busybox: Path) -> Layout:
    layer = _layer(busybox)
    blobs: dict[str, bytes] = {}
    manifests: dict[str, str] = {}

    def blob(data: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        blobs[digest] = data
        return {"digest": digest, "size": len(data)}

    packed = blob(gzip.compress(layer, 1, mtime=0))
    index = []
    for image in images:
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                **blob(json.dumps(_configuration(image, layer)).encode()),
            },
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **packed}],
        }
        entry = blob(json.dumps(manifest).encode())
        manifests[image.name] = str(entry["digest"])
        names = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name}
        index.append({"mediaType": MANIFEST, **entry, "annotations": names})
    return Layout(manifests, blobs, json.dumps({"schemaVersion": 2, "manifests": index}).encode())


def _configuration(image: ImageSource, layer: bytes) -> dict[str, Any]:
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": list(image.entrypoint) or None,
            "Cmd": list(image.command) or None,
            "Env": list(image.environment),
            "User": image.user,
            **({"StopSignal": image.stop_signal} if image.stop_signal else {}),
            "Labels": {"name": image.name, **image.labels},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }


def write_archive(file: Path, images: Layout) -> None:
    files = {f"blobs/{digest.replace(':', '/')}": data for digest, data in images.blobs.items()}
    files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    files["index.json"] = images.index
    with tarfile.open(file, "w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
