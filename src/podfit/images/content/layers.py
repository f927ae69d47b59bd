"""Applies the layers of an image to a folder, which is the root of all their paths.

Layers are untrusted: their names, and links of the layers below, must not lead out of the folder. Links are therefore
resolved here, relative to the folder, and not by the kernel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
from pathlib import Path
from typing import IO, cast

from podfit.images.content.compression import Hashed, unpacked
from podfit.images.errors import BrokenImage

MAX_BYTES, MAX_FILES = 64 << 30, 4_000_000
"""The most bytes of an unpacked image: more is treated as an attack on the node's disk."""
_LINKS = 40
"""The most links in a path, as in the kernel."""
_OPAQUE, _GONE = ".wh..wh..opq", ".wh."
_XATTR = "SCHILY.xattr."
_KEPT_XATTRS = ("security.capability", "user.")


class EscapesRoot(BrokenImage):
    """A name that resolves to a path outside of the image."""


class Unpacker:
    """Applies layers, the lowest first, to one folder. Owners are the numeric ids in the layer, not names of this
    host.
    """

    def __init__(self, root: Path, max_bytes: int = MAX_BYTES, max_files: int = MAX_FILES) -> None:
        self._root, self._bytes_left, self._files_left = root, max_bytes, max_files
        self._added: set[str] = set()
        """Paths of the current layer and all folders above them: its whiteouts apply to the layers below only."""

    def apply_file(self, file: Path, diff_id: str = "") -> None:
        """Applies one layer, compressed or not. `diff_id`: the digest that its content must have."""
        with unpacked(file) as plain:
            stream = Hashed(plain, diff_id or "sha256:")
            self.apply(cast("IO[bytes]", stream))
            found = stream.rest()
        if diff_id and found != diff_id.partition(":")[2]:
            raise BrokenImage(f"a layer unpacks to content that is not {diff_id}")

    def apply(self, layer: IO[bytes]) -> None:
        self._added.clear()
        try:
            with tarfile.open(fileobj=layer, mode="r|") as members:
                # Newer interpreters require a filter; its checks are made here, on all versions.
                members.extraction_filter = lambda member, path: member
                for member in members:
                    self._one(members, member)
        except (tarfile.TarError, UnicodeError, ValueError, KeyError, OverflowError) as error:
            if not isinstance(error, BrokenImage):
                raise BrokenImage(f"a layer is damaged: {error}") from error
            raise

    def _one(self, members: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if "\0" in member.name or "\0" in member.linkname:
            raise BrokenImage("a layer has a name with a NUL in it")
        folder, base = os.path.split(member.name.rstrip("/"))
        if base == _OPAQUE:
            self._hide_below(within(self._root, f"{folder}/."))
        elif base.startswith(_GONE):
            self._hide(within(self._root, os.path.join(folder, base.removeprefix(_GONE))))
        else:
            self._extract(members, member)

    # --- whiteouts
    def _hide(self, place: str) -> None:
        if place in self._added:
            self._hide_below(place)
        elif place:
            _remove(self._root / place)

    def _hide_below(self, place: str) -> None:
        """Deletes what the layers below added to a folder, and keeps what this one added."""
        folder = self._root / place
        if folder.is_symlink() or not folder.is_dir():
            return
        for name in os.listdir(folder):
            self._hide(f"{place}/{name}" if place else name)

    # --- files
    def _extract(self, members: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        place = within(self._root, member.name)
        if not place:
            return
        self._count(member)
        path = self._root / place
        if not member.isdir() or path.is_symlink() or (path.exists() and not path.is_dir()):
            # Writing through an existing link would modify its target, and an existing file may have other links.
            _remove(path)
        self._note(place)
        member.name = place
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.islnk():
            self._link(member, path)
            return
        if member.isdir() and os.geteuid() != 0:
            member.mode |= 0o700  # otherwise nothing could be added to it
        with contextlib.suppress(PermissionError) if member.isdev() else contextlib.nullcontext():
            members.extract(member, self._root, numeric_owner=True)
        self._set_xattrs(member, path)

    def _link(self, member: tarfile.TarInfo, path: Path) -> None:
        target = self._root / within(self._root, member.linkname)
        try:
            os.link(target, path, follow_symlinks=False)
        except (FileNotFoundError, PermissionError) as error:
            raise BrokenImage(f"a layer links {member.name} to {member.linkname}, which cannot be linked to") from error

    def _count(self, member: tarfile.TarInfo) -> None:
        self._bytes_left -= member.size
        self._files_left -= 1
        if self._bytes_left < 0 or self._files_left < 0:
            raise BrokenImage("the image unpacks to more than this node accepts")

    def _note(self, place: str) -> None:
        while place and place not in self._added:
            self._added.add(place)
            place = place.rpartition("/")[0]

    @staticmethod
    def _set_xattrs(member: tarfile.TarInfo, path: Path) -> None:
        """Sets extended attributes, such as file capabilities, if the file system supports them."""
        for key, value in member.pax_headers.items():
            name = key.removeprefix(_XATTR)
            if key.startswith(_XATTR) and name.startswith(_KEPT_XATTRS):
                with contextlib.suppress(OSError):
                    os.setxattr(path, name, value.encode("utf-8", "surrogateescape"), follow_symlinks=False)


def within(root: Path, name: str) -> str:
    """The path of a name below the root, with all links resolved except in the last component."""
    ends_inside = name.endswith("/.")
    waiting = [part for part in reversed(name.split("/")) if part not in ("", ".")]
    done: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            if not done:
                raise EscapesRoot(f"{name} leads out of the image")
            done.pop()
            continue
        target = _link_at(root.joinpath(*done, part)) if waiting or ends_inside else None
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > _LINKS:
            raise EscapesRoot(f"{name} goes through too many links")
        if target.startswith("/"):
            done.clear()
        waiting += [step for step in reversed(target.split("/")) if step not in ("", ".")]
    return "/".join(done)


def _link_at(path: Path) -> str | None:
    return os.readlink(path) if path.is_symlink() else None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
