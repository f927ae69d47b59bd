"""What a VM starts from, taken out of OCI images: a disk under /disk/, or a kernel and an initrd under /boot/.

A disk image is what KubeVirt calls a containerDisk. For direct boot the image carries /boot/vmlinuz and, mostly,
/boot/initrd.img; the kernel's command line is its label `podfit.dev/vm-cmdline`, unless the pod has an annotation of
that name. The files are extracted once per image and only ever read.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from podfit.vm.decide.layout import CMDLINE
from podfit.vm.disks import format_of
from podfit.vm.records import Image

DEFAULT_CMDLINE = "console=ttyS0 panic=-1"
_KERNEL, _INITRD, _DISK = "boot/vmlinuz", "boot/initrd.img", "disk/"


class ImageMissing(Exception):
    """No such image on this node."""


class ImageUnusable(Exception):
    """The image is there, but no VM can start from it; the message says what it lacks."""


class Guests:
    """The extracted files of images, by image ID."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _of(self, id: str) -> Path:
        return self._folder / id.replace(":", "-")

    def has(self, id: str) -> bool:
        return self._of(id).is_dir()

    def remove(self, id: str) -> None:
        shutil.rmtree(self._of(id), ignore_errors=True)

    def extract(self, id: str, layers: Iterable[IO[bytes]]) -> None:
        """Takes the files of a VM out of an image's layers. A half-extracted image is never seen."""
        partial = self._of(id).with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for layer in layers:
            _extract_layer(layer, partial)
        target = self._of(id)
        if target.exists():
            shutil.rmtree(partial)
        else:
            os.rename(partial, target)

    def image(self, id: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Image:
        """Raises ImageUnusable."""
        folder = self._of(id)
        kernel, initrd = folder / _KERNEL, folder / _INITRD
        disks = sorted(path for path in (folder / "disk").glob("*") if path.is_file())
        if not kernel.is_file() and not disks:
            raise ImageUnusable(
                "the image has neither a disk under /disk/ nor a kernel /boot/vmlinuz: no VM starts from it"
            )
        if len(disks) > 1:
            raise ImageUnusable(f"the image has {len(disks)} disks under /disk/; a VM starts from one")
        found = Image(id)
        if disks:
            found.disk, found.disk_format = str(disks[0]), format_of(disks[0])
        if kernel.is_file():
            found.kernel = str(kernel)
            found.initrd = str(initrd) if initrd.is_file() else ""
            found.cmdline = annotations.get(CMDLINE) or labels.get(CMDLINE) or DEFAULT_CMDLINE
        return found


def _extract_layer(layer: IO[bytes], target: Path) -> None:
    with tarfile.open(fileobj=layer, mode="r:*") as tar:
        for entry in tar:
            name = os.path.normpath(entry.name.lstrip("/"))
            if not (name in (_KERNEL, _INITRD) or (name.startswith(_DISK) and name.count("/") == 1)):
                continue
            base, _, last = name.rpartition("/")
            if last.startswith(".wh."):
                (target / base / last.removeprefix(".wh.")).unlink(missing_ok=True)
                continue
            content = tar.extractfile(entry) if entry.isfile() else None
            if content is None:
                continue
            (target / base).mkdir(parents=True, exist_ok=True)
            with (target / name).open("wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
