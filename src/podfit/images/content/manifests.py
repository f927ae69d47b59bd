"""Parses manifests, indexes and configurations of images, in OCI's and Docker's formats."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from podfit.images.content.digests import checked
from podfit.images.errors import BrokenImage

OCI_INDEX, OCI_MANIFEST = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
ACCEPTED = (OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST)
MAX_DOCUMENT = 4 << 20
"""The maximum size of a manifest, index or configuration. Registries have the same limit for manifests."""
MAX_LAYERS = 512
_SCHEMA_1 = "application/vnd.docker.distribution.manifest.v1"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv6l": "arm", "i686": "386"}
_VARIANTS = {"armv7l": ("v7", "v6", "v5"), "armv6l": ("v6", "v5"), "aarch64": ("v8", "")}


class Descriptor(Struct, frozen=True):
    digest: str
    size: int
    media_type: str = ""


class Manifest(Struct, frozen=True):
    config: Descriptor
    layers: tuple[Descriptor, ...]


class Settings(Struct, frozen=True):
    """The image's defaults for running it."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""
    ports: tuple[str, ...] = ()
    """`80/tcp`."""
    labels: dict[str, str] = {}


class Config(Struct, frozen=True):
    settings: Settings
    diff_ids: tuple[str, ...]
    """Digests of the uncompressed layers."""


class Platform(Struct, frozen=True):
    architecture: str
    os: str = "linux"
    variants: tuple[str, ...] = ()
    """The accepted variants, best first; () accepts any."""

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


def this_platform() -> Platform:
    machine = platform.machine()
    return Platform(_ARCHITECTURES.get(machine, machine), variants=_VARIANTS.get(machine, ()))


def document(data: bytes, what: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenImage(f"{what} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise BrokenImage(f"{what} is not a JSON object")
    return found


def is_index(found: Mapping[str, Any]) -> bool:
    return isinstance(found.get("manifests"), list)


def read_manifest(found: Mapping[str, Any], media_type: str = "") -> Manifest:
    kind = str(found.get("mediaType") or media_type)
    if kind.startswith(_SCHEMA_1) or found.get("schemaVersion") == 1:
        raise BrokenImage("manifest schema 1 is not supported: push the image again with a current tool")
    layers = found.get("layers")
    if not isinstance(layers, list) or not isinstance(found.get("config"), dict):
        raise BrokenImage(f"not an image manifest (media type {kind or 'unknown'})")
    if len(layers) > MAX_LAYERS:
        raise BrokenImage(f"the image has {len(layers)} layers, more than {MAX_LAYERS}")
    config = descriptor(found["config"])
    if config.size > MAX_DOCUMENT:
        raise BrokenImage(f"the image's configuration has {config.size} bytes, more than {MAX_DOCUMENT}")
    return Manifest(config, tuple(descriptor(layer) for layer in layers))


def descriptor(found: object) -> Descriptor:
    if not isinstance(found, dict):
        raise BrokenImage("a descriptor is not a JSON object")
    size = found.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise BrokenImage(f"a descriptor has the size {size!r}")
    return Descriptor(checked(found.get("digest")), size, str(found.get("mediaType") or ""))


def choose(found: Mapping[str, Any], wanted: Platform) -> Descriptor:
    """Selects the image for a platform from an index. One that names no platform is used if it is the only one."""
    offered = [manifest for manifest in found["manifests"] if isinstance(manifest, dict)]
    ranked = sorted(
        (rank, at)
        for at, manifest in enumerate(offered)
        if (rank := _rank(manifest.get("platform"), wanted)) is not None
    )
    if ranked:
        return descriptor(offered[ranked[0][1]])
    if len(offered) == 1 and not offered[0].get("platform"):
        return descriptor(offered[0])
    names = sorted({_platform_name(manifest.get("platform")) for manifest in offered} - {""})
    raise BrokenImage(f"no match for platform {wanted} in manifest (it has {', '.join(names) or 'none'}): not found")


def _rank(offered: object, wanted: Platform) -> int | None:
    if not isinstance(offered, dict):
        return None
    if (offered.get("os"), offered.get("architecture")) != (wanted.os, wanted.architecture):
        return None
    variant = str(offered.get("variant") or "")
    if not wanted.variants or not variant:
        return len(wanted.variants)
    return wanted.variants.index(variant) if variant in wanted.variants else None


def _platform_name(offered: object) -> str:
    if not isinstance(offered, dict) or offered.get("os") in (None, "", "unknown"):
        return ""
    return "/".join(str(offered[key]) for key in ("os", "architecture", "variant") if offered.get(key))


def read_config(data: bytes) -> Config:
    found = document(data, "the image's configuration")
    inner = found.get("config")
    settings = _settings(inner if isinstance(inner, dict) else {})
    rootfs = found.get("rootfs")
    ids = rootfs.get("diff_ids") if isinstance(rootfs, dict) else None
    return Config(settings, tuple(checked(layer) for layer in ids) if isinstance(ids, list) else ())


def _settings(inner: Mapping[str, Any]) -> Settings:
    try:
        return Settings(
            entrypoint=_words(inner, "Entrypoint"),
            command=_words(inner, "Cmd"),
            environment=_words(inner, "Env"),
            working_dir=_word(inner, "WorkingDir"),
            user=_word(inner, "User"),
            stop_signal=_word(inner, "StopSignal"),
            ports=tuple(sorted(map(str, inner.get("ExposedPorts") or {}))),
            labels={str(key): str(value) for key, value in (inner.get("Labels") or {}).items()},
        )
    except (TypeError, AttributeError) as error:
        raise BrokenImage(f"the image's configuration is malformed: {error}") from error


def _words(inner: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = inner.get(key) or ()
    if not isinstance(found, (list, tuple)) or not all(isinstance(word, str) for word in found):
        raise BrokenImage(f"the image's configuration has the {key} {found!r}")
    return tuple(found)


def _word(inner: Mapping[str, Any], key: str) -> str:
    found = inner.get(key) or ""
    if not isinstance(found, str):
        raise BrokenImage(f"the image's configuration has the {key} {found!r}")
    return found
