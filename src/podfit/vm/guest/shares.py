"""Shares volumes of a VM pod with the guest: folders of the node that it mounts by virtiofs, once its agent responds.

A read-only volume is bind-mounted read-only to a path of its own, and the guest gets that path: whatever its kernel
does, it cannot write to the volume. These paths are never deleted recursively, because the volumes are mounted there.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from podfit.cri import api_pb2 as cri
from podfit.vm.decide.refusals import Invalid
from podfit.vm.machines.guest import AgentFailed, GuestAgent

DAEMONS = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")
_NOT_VOLUMES = ("/etc/hosts", "/dev/termination-log")
"""Mounts that every pod gets besides its volumes; a guest has its own files at these paths."""
_TOKEN, _AUTOMATIC = "/var/run/secrets/kubernetes.io/serviceaccount", "kube-api-access-"
"""The mount path of the service account token, and the prefix of that volume's name."""


@dataclass(frozen=True)
class Share:
    tag: str
    source: Path
    target: str
    read_only: bool
    daemon: str = ""


def shares_of(mounts: Iterable[cri.Mount], token: bool = False) -> tuple[Share, ...]:
    """`token`: the automatic volume of the service account is included. Raises Invalid for mounts that a guest does not
    support."""
    wanted = [candidate for candidate in mounts if _is_volume(candidate) and (token or not _is_automatic(candidate))]
    daemon = next((path for path in DAEMONS if os.access(path, os.X_OK)), "")
    if wanted and not daemon:
        raise Invalid("volumes of a VM need virtiofsd, which is not installed (Debian: qemu-system-common)")
    found = []
    for number, mount in enumerate(wanted):
        if not os.path.isdir(mount.host_path):
            raise Invalid(
                f"{mount.container_path} is a file or a device of the node: a VM can only mount folders; "
                "mount the whole volume, without subPath"
            )
        found.append(
            Share(f"podfit{number}", Path(mount.host_path).resolve(), mount.container_path, mount.readonly, daemon)
        )
    return tuple(found)


def _is_volume(mount: cri.Mount) -> bool:
    return mount.container_path.rstrip("/") not in _NOT_VOLUMES


def _is_automatic(mount: cri.Mount) -> bool:
    automatic = any(part.startswith(_AUTOMATIC) for part in Path(mount.host_path).parts)
    return automatic and mount.container_path.rstrip("/") == _TOKEN


class Shares:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def prepare(self, id: str, shares: tuple[Share, ...]) -> tuple[Share, ...]:
        """The shares for the VM's definition. Raises Invalid."""
        return tuple([await self._prepared(id, share) for share in shares])

    async def _prepared(self, id: str, share: Share) -> Share:
        if not share.read_only:
            return share
        place = self._folder / id / share.tag
        place.mkdir(parents=True, exist_ok=True)
        if not os.path.ismount(place):
            await _run("mount", "--bind", str(share.source), str(place))
            await _run("mount", "-o", "remount,bind,ro", str(place))
        return Share(share.tag, place, share.target, True, share.daemon)

    async def remove(self, id: str) -> None:
        folder = self._folder / id
        if not folder.is_dir():
            return
        for place in folder.iterdir():
            with suppress(Invalid):
                await _run("umount", "--lazy", str(place))
            with suppress(OSError):
                place.rmdir()
        with suppress(OSError):
            folder.rmdir()


async def mount_in_guest(agent: GuestAgent, shares: tuple[Share, ...]) -> list[str]:
    """Mounts the volumes that are not mounted yet; returns the failures."""
    problems = []
    for share in shares:
        target = shlex.quote(share.target)
        options = "-o ro " if share.read_only else ""
        script = (
            f"grep -q '^{share.tag} ' /proc/mounts || "
            f"{{ mkdir -p {target} && mount -t virtiofs {options}{share.tag} {target}; }} 2>&1"
        )
        try:
            ran = await agent.run(["/bin/sh", "-c", script])
        except AgentFailed as error:
            problems.append(f"{share.target}: {error}")
            continue
        if ran.code:
            problems.append(f"{share.target}: {ran.out.decode(errors='replace').strip() or f'exit code {ran.code}'}")
    return problems


async def _run(*command: str) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    output, _ = await process.communicate()
    if process.returncode:
        raise Invalid(f"{' '.join(command)}: {output.decode(errors='replace').strip()}")
