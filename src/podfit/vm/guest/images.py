"""Finds the boot source of a VM in an OCI image: a disk under /disk/, or a kernel and an initrd under /boot/.

A disk image is what KubeVirt calls a containerDisk. For direct boot the image contains /boot/vmlinuz and, usually,
/boot/initrd.img; the kernel command line is its label `podfit.dev/vm-cmdline`, unless the pod has an annotation of that
name. Images are in podfit's image store, and are never written to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from podfit.api.pods.machines import CMDLINE
from podfit.cri import api_pb2 as cri
from podfit.images.archives import load
from podfit.images.errors import ImageError, NoSuchImage
from podfit.images.index import StoredImage
from podfit.images.references import parse
from podfit.images.registries.credentials import Credentials
from podfit.images.registries.pull import Puller
from podfit.images.store import ImageStore
from podfit.vm.guest.disks import format_of, other_file
from podfit.vm.records import Image

DEFAULT_CMDLINE = "console=ttyS0 panic=-1"


class ImageMissing(Exception):
    """No such image on this node."""


class ImageUnusable(Exception):
    """The image exists, but no VM can boot from it; the message says what it lacks."""


class Images:
    def __init__(self, folder: Path, owner: str, insecure_registries: tuple[str, ...] = ()) -> None:
        """`owner`: identifies this runtime among others that share the store."""
        self.folder, self._owner = folder, owner
        self._store = ImageStore(folder)
        self._puller = Puller(self._store, insecure_registries)

    def open(self, archives: tuple[Path, ...], vms: Collection[str]) -> None:
        """Opens the store and loads the archives. `vms`: the existing ones; images of others, whose creation was
        interrupted, are released. Raises ImageError."""
        self._store.prepare()
        self._store.keep_leases(self._owner, vms)
        for archive in archives:
            load(self._store, archive)

    def close(self) -> None:
        self._puller.close()

    def all(self) -> list[StoredImage]:
        return self._store.images()

    def find(self, name: str) -> StoredImage | None:
        return self._store.find(name)

    async def pull(self, name: str, auth: cri.AuthConfig) -> StoredImage:
        """Pulls an image. Raises ImageError."""
        credentials = Credentials(
            auth.username, auth.password, auth.server_address, auth.identity_token, auth.registry_token
        )
        known = auth.username or auth.identity_token or auth.registry_token
        return await self._puller.pull(parse(name), credentials if known else None)

    def remove(self, name: str) -> None:
        """Removes the whole image, by any of its names, as CRI requires. Raises ImageInUse."""
        found = self._store.find(name)
        if found is not None:
            with suppress(NoSuchImage):
                self._store.remove(found.id)

    # --- images in use by VMs
    def take(self, spec: cri.ImageSpec, annotations: Mapping[str, str], vm: str) -> Image:
        """The image for a VM; it cannot be removed until it is released. Raises ImageMissing, ImageUnusable."""
        name = spec.image
        found = self._store.find(name)
        if found is None:
            raise ImageMissing(f"the image {spec.user_specified_image or name!r} is not on this node")
        image = _guest(found, annotations)
        self._store.lease(found.id, f"{self._owner}-{vm}")
        return image

    def release(self, image: Image, vm: str) -> None:
        self._store.release(image.id, f"{self._owner}-{vm}")


def _guest(found: StoredImage, annotations: Mapping[str, str]) -> Image:
    root = Path(found.rootfs).resolve()
    kernel, initrd = _within(root, root / "boot/vmlinuz"), _within(root, root / "boot/initrd.img")
    disks = [disk for path in sorted((root / "disk").glob("*")) if (disk := _within(root, path)) is not None]
    if kernel is None and not disks:
        raise ImageUnusable(
            "the image has neither a disk under /disk/ nor a kernel /boot/vmlinuz: no VM can boot from it"
        )
    if len(disks) > 1:
        raise ImageUnusable(f"the image has {len(disks)} disks under /disk/; a VM boots from one")
    image = Image(found.id)
    if disks:
        if not disks[0].stat().st_size:
            raise ImageUnusable(f"the image's disk {disks[0].name} is empty")
        image.disk, image.disk_format = str(disks[0]), format_of(disks[0])
        if (other := other_file(disks[0])) is not None:
            raise ImageUnusable(f"the image's disk {disks[0].name} {other}; it must be complete")
    if kernel is not None:
        image.kernel = str(kernel)
        image.initrd = str(initrd) if initrd is not None else ""
        image.cmdline = annotations.get(CMDLINE) or found.settings.labels.get(CMDLINE) or DEFAULT_CMDLINE
    return image


def _within(root: Path, path: Path) -> Path | None:
    """The file to which the path leads, if that is in the image: a link could lead anywhere on this machine."""
    resolved = path.resolve()
    return resolved if resolved.is_relative_to(root) and resolved.is_file() else None


__all__ = ["ImageError", "ImageMissing", "ImageUnusable", "Images"]
