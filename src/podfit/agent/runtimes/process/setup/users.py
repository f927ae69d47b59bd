"""Resolves the user of a container's program: from the pod, else the image's USER, in the image's own files.

The passwd and group files of a root file system are parsed as text, never through the host's lookups. A container that
runs on the host's files gets no groups from them: a pod must not get the host's memberships (docker, sudo …).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from podfit.agent.runtimes.values import CannotRun, LinuxUser, Security

_LARGEST = 1 << 20
_ROOT_HOME = "/root"


@dataclass(frozen=True, slots=True)
class Identity:
    user: LinuxUser
    home: str


def identify(security: Security, image_user: str, rootfs: str) -> Identity:
    """The user and groups. Raises CannotRun for a name that is not in the image."""
    wanted, _, group = image_user.partition(":")
    if security.uid is not None:
        wanted, group = str(security.uid), ""
    rows = _rows(rootfs, "passwd", 7)
    row = _find(rows, wanted or "0", "user", "passwd")
    uid = int(wanted or 0) if row is None else int(row[2])
    gid = _group(security, group, row, rootfs)
    groups = [gid, *security.groups]
    if row is not None and not security.strict_groups:
        groups += [int(entry[2]) for entry in _rows(rootfs, "group", 4) if row[0] in entry[3].split(",")]
    home = row[5] if row is not None and row[5] else "/" if uid else _ROOT_HOME
    return Identity(LinuxUser(uid, gid, tuple(dict.fromkeys(groups))), home)


def _group(security: Security, group: str, row: list[str] | None, rootfs: str) -> int:
    if security.gid is not None:
        return security.gid
    if group:
        found = _find(_rows(rootfs, "group", 4), group, "group", "group")
        return int(group) if found is None else int(found[2])
    return int(row[3]) if row is not None else 0


def _find(rows: list[list[str]], wanted: str, what: str, file: str) -> list[str] | None:
    """The row of that name or number; a number need not be in the file."""
    at = 2 if wanted.isdecimal() else 0
    row = next((candidate for candidate in rows if candidate[at] == wanted), None)
    if row is None and not wanted.isdecimal():
        why = f"unable to find {what} {wanted}: no matching entries in {file} file"
        raise CannotRun(f"failed to create container: {why}", "CreateContainerError")
    return row


def _rows(rootfs: str, name: str, fields: int) -> list[list[str]]:
    if not rootfs:
        return []
    path = os.path.join(rootfs, "etc", name)
    try:
        # An image's links may lead anywhere, so a file that is a link is not opened.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), errors="replace") as file:
            lines = file.read(_LARGEST).splitlines()
    except OSError:
        return []
    rows = [line.split(":") for line in lines if line and not line.startswith("#")]
    numbers = (2, 3) if name == "passwd" else (2,)
    return [row for row in rows if len(row) >= fields and all(row[at].isdecimal() for at in numbers)]
