"""Writes the files of a volume, replaced atomically and owned by the pod's fsGroup, and resolves paths within a volume.

Files from ConfigMaps, Secrets, tokens and the downward API are stored in a folder of their own behind the link
`..data`, so that a container sees either all of the old or all of the new.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from podfit.agent.runtimes.process.keeper.beneath import make_folders

Files = dict[str, tuple[bytes, int]]
"""Content and mode of each file, by its path inside the volume."""


def give(path: Path, group: int, mode: int) -> None:
    """Sets the pod's fsGroup as owner. Without permission (tests, rootless) the owner stays."""
    with suppress(PermissionError):
        os.chown(path, -1, group)
        path.chmod(mode)


def make_below(volume: Path, sub: str) -> None:
    """Creates the missing folders of `sub` in a volume, with the volume's own mode.

    ValueError if a link, which a container may have created, leads out of the volume.
    """
    root = os.open(volume, os.O_PATH | os.O_CLOEXEC)
    try:
        os.close(make_folders(root, sub, volume.stat().st_mode & 0o7777, inside=False))
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise ValueError(f'subpath "{volume / sub}" not within volume path "{volume}"') from error
    finally:
        os.close(root)


def replace_files(path: Path, files: Files, group: int | None = None) -> None:
    """Replaces the files atomically; touches nothing if nothing changed."""
    path.mkdir(parents=True, exist_ok=True)
    if group is not None:
        files = {name: (content, mode | 0o440) for name, (content, mode) in files.items()}
    current = path / "..data"
    if current.is_symlink() and _same_files(current, files):
        return
    fresh = path / f"..{secrets.token_hex(8)}"
    for name, (content, mode) in files.items():
        file = fresh / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(mode)
    fresh.mkdir(exist_ok=True)
    if group is not None:
        for made in (fresh, *fresh.rglob("*")):
            give(made, group, 0o2755 if made.is_dir() else made.stat().st_mode & 0o7777)
    old = os.readlink(current) if current.is_symlink() else ""
    link = path / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(fresh.name)
    os.replace(link, current)
    _links(path, {name.split("/", 1)[0] for name in files})
    if old:
        shutil.rmtree(path / old, ignore_errors=True)


def _links(path: Path, names: set[str]) -> None:
    for entry in path.iterdir():
        if not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
    for name in names:
        if not (path / name).is_symlink():
            (path / name).symlink_to(Path("..data") / name)


def _same_files(folder: Path, files: Files) -> bool:
    present = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    if present.keys() != files.keys():
        return False
    return all(
        file.read_bytes() == files[name][0] and file.stat().st_mode & 0o7777 == files[name][1]
        for name, file in present.items()
    )
