"""Layers of an image laid over each other in a folder, as if that folder were the root of all paths.

A layer comes from anywhere: its names and the links of the layers below it must not lead out of the folder. Links are
therefore followed here, with the folder for a root, and not by the kernel.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import IO

_LINKS = 40
"""As many links in a path as the kernel follows."""
_OPAQUE, _GONE = ".wh..wh..opq", ".wh."


class LeadsOut(ValueError):
    """A name that does not stay in the image."""


def apply(layer: IO[bytes], root: Path) -> None:
    """One layer over those below; a whiteout removes what they brought. Owners and modes stay as they are."""
    with tarfile.open(fileobj=layer) as members:
        # Newer interpreters ask for a filter; what it would check is checked here, on all of them.
        members.extraction_filter = lambda member, path: member
        for member in members:
            folder, base = os.path.split(member.name)
            if base == _OPAQUE:
                shutil.rmtree(root / within(root, folder), ignore_errors=True)
            elif base.startswith(_GONE):
                _remove(root / within(root, os.path.join(folder, base.removeprefix(_GONE))))
            else:
                _extract(members, member, root)


def within(root: Path, name: str) -> str:
    """The place of a name below the root, all links on the way to it followed, the last part left as it is."""
    waiting = [part for part in reversed(name.split("/")) if part not in ("", ".")]
    done: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            if not done:
                raise LeadsOut(f"{name} leads out of the image")
            done.pop()
            continue
        target = _link(root.joinpath(*done, part)) if waiting else None
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > _LINKS:
            raise LeadsOut(f"{name} goes through too many links")
        if target.startswith("/"):
            done.clear()
        waiting += [step for step in reversed(target.split("/")) if step not in ("", ".")]
    return "/".join(done)


def _link(path: Path) -> str | None:
    return os.readlink(path) if path.is_symlink() else None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _extract(members: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    place = within(root, member.name)
    if not place:
        return
    path = root / place
    if not member.isdir() or path.is_symlink() or (path.exists() and not path.is_dir()):
        # Written through, an old link would lead elsewhere, and an old file may be linked to others.
        _remove(path)
    member.name = place
    if member.islnk():
        member.linkname = within(root, member.linkname)
    members.extract(member, root)
