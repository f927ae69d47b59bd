"""Credentials for registries: read from Docker's configuration files, matched to images as in a kubelet."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from podfit.images.references import DOCKER, Reference

DOCKER_CONFIG_JSON, DOCKER_CFG = "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"
_DEFAULT_REGISTRY = "index.docker.io"


class BadCredentials(ValueError):
    """A malformed configuration. The message never quotes it."""


class Credentials(msgspec.Struct, frozen=True):
    """The credentials for one registry, with the fields of CRI's AuthConfig."""

    username: str = ""
    password: str = ""
    server: str = ""
    identity_token: str = ""
    """A refresh token, exchanged for access tokens."""
    registry_token: str = ""
    """An access token, sent unchanged."""

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, server={self.server!r})"


class Keyring:
    """Credentials by registry and path. More specific entries come first; an entry may have globs in its host."""

    def __init__(self) -> None:
        self._entries: dict[str, list[Credentials]] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, auths: Mapping[str, Any]) -> None:
        for place, entry in auths.items():
            key = _key(place)
            found = _credentials(entry, key)
            if found is not None:
                self._entries.setdefault(key, []).append(found)

    def lookup(self, image: Reference) -> list[Credentials]:
        """All candidates for an image, best first."""
        name = image.name
        matching = [key for key in sorted(self._entries, reverse=True) if _matches(key, name)]
        if not matching and image.registry == DOCKER and _DEFAULT_REGISTRY in self._entries:
            matching = [_DEFAULT_REGISTRY]
        return list(dict.fromkeys(found for key in matching for found in self._entries[key]))


def keyring_of(secrets: Iterable[Mapping[str, Any]]) -> Keyring:
    """A keyring from Secrets of Docker's two types; others are skipped. Raises BadCredentials for a malformed one."""
    keyring = Keyring()
    for secret in secrets:
        data = secret.get("data") or {}
        if secret.get("type") == DOCKER_CONFIG_JSON and data.get(".dockerconfigjson"):
            keyring.add(_auths(_decoded(secret, ".dockerconfigjson").get("auths")))
        elif secret.get("type") == DOCKER_CFG and data.get(".dockercfg"):
            keyring.add(_decoded(secret, ".dockercfg"))
    return keyring


def keyring_in(file: Path) -> Keyring:
    """A keyring from a file such as ~/.docker/config.json; empty if there is none or it is malformed."""
    keyring = Keyring()
    try:
        document = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError):
        return keyring
    keyring.add(_auths(document.get("auths") if isinstance(document, dict) else None))
    return keyring


def user_file() -> Path:
    """The file in which `docker login` stores credentials, and from which a kubelet reads those of its node."""
    try:
        return Path.home() / ".docker" / "config.json"
    except RuntimeError:
        return Path("/.docker/config.json")


def _auths(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}


def _decoded(secret: Mapping[str, Any], key: str) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(base64.b64decode(secret["data"][key], validate=True))
    except (binascii.Error, ValueError, TypeError) as error:
        raise BadCredentials(f"Secret {_name(secret)}: {key} is not valid JSON") from error
    if not isinstance(document, dict):
        raise BadCredentials(f"Secret {_name(secret)}: {key} is not a JSON object")
    return document


def _name(secret: Mapping[str, Any]) -> str:
    return str((secret.get("metadata") or {}).get("name") or "")


def _credentials(entry: object, server: str) -> Credentials | None:
    if not isinstance(entry, dict):
        return None
    fields = {name: value if isinstance(value := entry.get(name), str) else "" for name in _FIELDS}
    username, password = fields["username"], fields["password"]
    if fields["auth"]:
        username, password = _decode_auth(fields["auth"])
    tokens = fields["identitytoken"], fields["registrytoken"]
    return Credentials(username, password, server, *tokens) if username or any(tokens) else None


_FIELDS = ("username", "password", "auth", "identitytoken", "registrytoken")


def _decode_auth(text: str) -> tuple[str, str]:
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BadCredentials("unable to parse auth field, must be formatted as base64(username:password)") from error
    username, colon, password = plain.rstrip("\0").partition(":")
    if not colon:
        raise BadCredentials("unable to parse auth field, must be formatted as base64(username:password)")
    return username, password


def _key(place: str) -> str:
    """The normalized key of an entry: a URL without its scheme; the paths /v1/ and /v2/ mean the registry itself."""
    url = urlsplit(place if re.match(r"https?://", place) else f"https://{place}")
    path = url.path[3:] if url.path.startswith(("/v1/", "/v2/")) else url.path
    return url.netloc + (path if path != "/" else "")


def _matches(key: str, image: str) -> bool:
    """Whether an entry applies to an image: compares the host label by label with globs, the port, and the path as a
    prefix."""
    (host, port, path), (their_host, their_port, their_path) = _parts(key), _parts(image)
    globs, labels = host.split("."), their_host.split(".")
    if port != their_port or len(globs) != len(labels) or not their_path.startswith(path):
        return False
    return all(fnmatch.fnmatchcase(label, glob) for glob, label in zip(globs, labels, strict=True))


def _parts(schemeless: str) -> tuple[str, str, str]:
    place, slash, path = schemeless.partition("/")
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        host, port = place, ""
    return host, port, slash + path
