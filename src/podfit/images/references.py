"""Parses image references: `nginx`, `ghcr.io/team/app:1.2`, `app@sha256:…`.

The grammar is that of the distribution specification, with Docker's defaults: the default registry is docker.io, a
single component there is below library/, and the default tag is latest.
"""

from __future__ import annotations

import re

from msgspec import Struct

DOCKER = "docker.io"
_LATEST = "latest"
_MAX_NAME = 255
_LABEL = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_WHOLE = re.compile(
    rf"(?:(?P<domain>{_DOMAIN})/)?(?P<path>{_COMPONENT}(?:/{_COMPONENT})*)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?"
)
_ANY_CASE = re.compile(_WHOLE.pattern.replace("[a-z0-9]+", "[A-Za-z0-9]+"))
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_HEX = {"sha256": 64, "sha384": 96, "sha512": 128}


class InvalidReference(ValueError):
    """An invalid image name; the message is that of Kubernetes."""


class Reference(Struct, frozen=True):
    registry: str
    """A host, optionally with a port: `docker.io`, `localhost:5000`."""
    repository: str
    """`library/nginx`."""
    tag: str = ""
    digest: str = ""
    """`sha256:…`. If both are given, the digest decides and the tag is only a name."""

    @property
    def name(self) -> str:
        """The full name without tag and digest."""
        return f"{self.registry}/{self.repository}"

    @property
    def tagged(self) -> str:
        """The name under which the store lists it; "" for an image that is identified by its digest only."""
        return f"{self.name}:{self.tag}" if self.tag else ""

    @property
    def pinned(self) -> str:
        return f"{self.name}@{self.digest}" if self.digest else ""

    def at(self, digest: str) -> str:
        """The name of this repository's image with a digest."""
        return f"{self.name}@{digest}"

    def __str__(self) -> str:
        text = f"{self.name}:{self.tag}" if self.tag else self.name
        return f"{text}@{self.digest}" if self.digest else text


def parse(text: str) -> Reference:
    """Parses a reference. Raises InvalidReference with the same message as a kubelet."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise InvalidReference(_complaint(text))
    if _IDENTIFIER.fullmatch(text):
        raise InvalidReference(f"invalid repository name ({text}), cannot specify 64-byte hexadecimal strings")
    domain, path = _split(found["domain"], found["path"])
    tag, digest = found["tag"] or "", found["digest"] or ""
    if len(f"{domain}/{path}") > _MAX_NAME:
        raise InvalidReference(f"repository name must not be more than {_MAX_NAME} characters")
    if digest and (complaint := digest_complaint(digest)):
        raise InvalidReference(complaint)
    return Reference(domain, path, tag or ("" if digest else _LATEST), digest)


def _complaint(text: str) -> str:
    if not text:
        return "invalid reference format"
    if _ANY_CASE.fullmatch(text):
        return f"invalid reference format: repository name ({text.partition(':')[0]}) must be lowercase"
    return "invalid reference format"


def _split(domain: str | None, path: str) -> tuple[str, str]:
    """A first component is a registry only if it has the form of a host; otherwise it is part of a name on
    docker.io."""
    if domain is not None and not (set(".:[") & set(domain) or domain == "localhost" or domain != domain.lower()):
        domain, path = None, f"{domain}/{path}"
    if domain is None or domain == "index.docker.io":
        domain = DOCKER
    if domain == DOCKER and "/" not in path:
        path = f"library/{path}"
    return domain, path


def digest_complaint(digest: str) -> str:
    """The error in a digest; "" for one that can be verified."""
    algorithm, _, value = digest.partition(":")
    if algorithm not in _HEX:
        return "unsupported digest algorithm"
    if len(value) != _HEX[algorithm]:
        return "invalid checksum digest length"
    return "" if re.fullmatch(r"[0-9a-f]+", value) else "invalid checksum digest format"
