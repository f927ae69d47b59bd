"""Creates the files of one VM: an overlay on the image's disk, which itself is never written to, and the raw console
log."""

from __future__ import annotations

import asyncio
import shutil
import struct
from pathlib import Path

from podfit.vm.machines.definition import Disk
from podfit.vm.records import Image

_QCOW2 = b"QFI\xfb"
_HEADER = 80
"""Up to the incompatible features of a version 3 header."""
_DATA_FILE = 1 << 2


class DiskFailed(Exception):
    """qemu-img refused an image; the message is qemu-img's."""


class Disks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, id: str) -> Path:
        return self._folder / id

    def beside(self, name: str) -> Path:
        """The path of another folder of the runtime."""
        return self._folder.parent / name

    def console(self, id: str) -> Path:
        """The console's file, in a folder of its own because it is watched: writes to the disks must not trigger the
        watcher."""
        return self._folder / id / "console" / "raw.log"

    async def create(self, id: str, image: Image, seed: bytes | None = None) -> tuple[Disk, ...]:
        """The VM's disks: the image's, if it has one, and the one for cloud-init."""
        self.console(id).parent.mkdir(parents=True, exist_ok=True)
        disks = (await self._overlay(id, image),) if image.disk else ()
        if seed is None:
            return disks
        path = self.of(id) / "seed.iso"
        path.write_bytes(seed)
        path.chmod(0o600)
        return (*disks, Disk(str(path), "raw", readonly=True))

    async def _overlay(self, id: str, image: Image) -> Disk:
        """A qcow2 file with only the differences from the image's disk."""
        overlay = self.of(id) / "root.qcow2"
        if not overlay.exists():
            words = ("create", "-q", "-f", "qcow2", "-b", image.disk, "-F", image.disk_format or "raw", str(overlay))
            try:
                await _qemu_img(*words)
            except DiskFailed as error:
                raise DiskFailed(f"the image's disk {Path(image.disk).name} cannot be used: {error}") from error
        return Disk(str(overlay))

    def remove(self, id: str) -> None:
        shutil.rmtree(self.of(id), ignore_errors=True)


def format_of(disk: Path) -> str:
    """The format of a disk, qcow2 or raw, by its first bytes: a raw disk has no header."""
    with disk.open("rb") as file:
        return "qcow2" if file.read(4) == _QCOW2 else "raw"


def other_file(disk: Path) -> str | None:
    """Describes how a qcow2 disk names another file; None if it names none. QEMU would open that file, which may be any
    file of this machine."""
    with disk.open("rb") as file:
        header = file.read(_HEADER)
    if len(header) < _HEADER or not header.startswith(_QCOW2):
        return None
    version, backing = struct.unpack_from(">IQ", header, 4)
    (features,) = struct.unpack_from(">Q", header, 72)
    if version in (2, 3) and backing:
        return "has a backing file"
    return "has its data in another file" if version == 3 and features & _DATA_FILE else None


async def _qemu_img(*words: str) -> None:
    try:
        process = await asyncio.create_subprocess_exec(
            "qemu-img", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise DiskFailed(f"qemu-img cannot run: {error} (Debian: apt-get install qemu-utils)") from error
    output, _ = await process.communicate()
    if process.returncode:
        raise DiskFailed(output.decode(errors="replace").strip())
