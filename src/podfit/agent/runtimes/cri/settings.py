"""How a node reaches its container runtimes, and the note of it that lets `podfit down` find their pods."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from podfit.kit.atomicfile import write_again

DEFAULT_ENDPOINT = "unix:///run/containerd/containerd.sock"
_FILE = "settings.json"


class CriSettings(msgspec.Struct, frozen=True):
    endpoint: str = DEFAULT_ENDPOINT
    others: Mapping[str, str] = {}
    """Handlers of RuntimeClasses that have a runtime of their own: name → endpoint."""
    cgroup_root: str = ""
    """"" for one of the agent's own, named by its data directory."""


class Note(msgspec.Struct, frozen=True):
    """What is needed to find the pods of one runtime again."""

    endpoint: str
    node: str
    cgroup_root: str


def write_note(folder: Path, note: Note) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_again(folder / _FILE, msgspec.json.encode(note), durable=False)


def read_note(folder: Path) -> Note | None:
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=Note)
    except (OSError, msgspec.DecodeError):
        return None
