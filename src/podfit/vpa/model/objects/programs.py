"""Identifies the program of a container: its image, command and arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from sys import intern
from typing import Any, NamedTuple

RUN = "run"
"""The field of a trimmed container that replaces its command and arguments."""


class Program(NamedTuple):
    """The program of a container. `run` is a digest of command and arguments; empty if the image's own are used."""

    name: str
    image: str
    run: str

    @property
    def repository(self) -> str:
        """The image without tag and digest."""
        path = self.image.split("@", 1)[0]
        head, slash, last = path.rpartition("/")
        return f"{head}{slash}{last.split(':', 1)[0]}"


def digest(container: Mapping[str, Any]) -> str:
    """A digest of command and arguments, for comparing them; empty if there are none."""
    command, args = container.get("command") or [], container.get("args") or []
    if not command and not args:
        return ""
    return intern(blake2b(json.dumps([command, args]).encode(), digest_size=12).hexdigest())


def program_of(container: Mapping[str, Any]) -> Program:
    """The program of a whole container, or of a trimmed one that has the digest."""
    run = container[RUN] if RUN in container else digest(container)
    return Program(container.get("name") or "", container.get("image") or "", run)
