"""Records how a container runtime was reached, so that `podfit down` finds the pods left in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from podfit.kit.files.atomicfile import write_again

_FILE = "settings.json"


class Note(msgspec.Struct, frozen=True):
    """The data needed to find the pods of one runtime again."""

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
