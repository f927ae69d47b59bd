"""The images of a process node: from its store, pulled by its own client, or the node's own files named `host`."""

from __future__ import annotations

import asyncio
import shlex
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from podfit.agent.runtimes.process.records import Container, Records
from podfit.agent.runtimes.values import (
    CannotRun,
    ContainerConfig,
    ImageMissing,
    ImageState,
    Mount,
    RuntimeFailure,
    invalid_image,
)
from podfit.images.errors import ImageError, NoSuchImage
from podfit.images.index import StoredImage
from podfit.images.references import InvalidReference, Reference, parse
from podfit.images.registries.credentials import Credentials
from podfit.images.registries.pull import STALL_S, Puller
from podfit.images.store import ImageStore

HOST = "host"
PAUSE = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483 & wait $!; done")
"""The program that runs on the host's files if the pod names none: it waits, and exits at once on SIGTERM."""


@dataclass(frozen=True, slots=True)
class Image:
    """The image of a container."""

    id: str
    rootfs: str = ""
    """"" is the host's."""
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""
    reported: str = HOST
    """The image's ID as a status reports it."""
    name: str = ""
    """The image's name as a status reports it: in full, with its registry."""


class NodeImages:
    def __init__(
        self, folder: Path, owner: str, fallback: str = "", insecure: Collection[str] = (), stall_s: float = STALL_S
    ) -> None:
        """`owner`: identifies this node among others that share the store. `fallback`: HOST runs absent images on the
        host's files."""
        self._store, self._owner, self._fallback = ImageStore(folder), owner, fallback
        self._puller = Puller(self._store, insecure, stall_s)

    @property
    def folder(self) -> Path:
        return self._store.folder

    def open(self, containers: Collection[str]) -> None:
        """Opens the store. Images of existing containers of the node stay protected."""
        self._store.prepare()
        self._store.keep_leases(self._owner, containers)

    def close(self) -> None:
        self._puller.close()

    def status(self, name: str) -> ImageState | None:
        found = None if name == HOST else self._store.find(name)
        if found is not None:
            return _state(found)
        return ImageState(HOST, host_files=True) if HOST in (name, self._fallback) else None

    def list(self) -> list[ImageState]:
        return [_state(image) for image in self._store.images()]

    async def pull(self, name: str, credentials: Credentials | None) -> str:
        reference = _reference(name)
        try:
            return (await self._puller.pull(reference, credentials)).id
        except ImageError as error:
            raise ImageMissing(str(error)) from error

    async def remove(self, image_id: str) -> None:
        try:
            await asyncio.to_thread(self._store.remove, image_id)
        except NoSuchImage:
            return
        except ImageError as error:
            raise RuntimeFailure(str(error)) from error

    def take(self, config: ContainerConfig, container_id: str) -> Image:
        """The image for a container; it cannot be removed until `release`."""
        found = None if HOST in (config.image, config.image_id) else self._store.find(config.image_id or config.image)
        try:
            if found is not None:
                return _image(self._store.lease(found.id, f"{self._owner}-{container_id}"), config.image)
        except NoSuchImage:
            found = None
        if HOST in (config.image, config.image_id, self._fallback):
            return Image(HOST, name=config.image)
        raise CannotRun(f'image "{config.image}" is not on the node any more', "CreateContainerError")

    def take_mounted(self, config: ContainerConfig, container_id: str) -> ContainerConfig:
        """The container's configuration with the images that it mounts as volumes; they are protected until
        `release`."""
        return replace(config, mounts=tuple(self._placed(mount, container_id) for mount in config.mounts))

    def _placed(self, mount: Mount, container_id: str) -> Mount:
        if not mount.image_id:
            return mount
        try:
            image = self._store.lease(mount.image_id, f"{self._owner}-{container_id}")
        except NoSuchImage as error:
            where = f"for {mount.container_path}"
            raise CannotRun(f"failed to mount image volume {where}: {error}", "CreateContainerError") from error
        return replace(mount, host_path=Path(image.rootfs))

    def release_all(self, image_id: str, config: ContainerConfig, container_id: str) -> None:
        """Releases the images of a container that is gone: its own and those it mounted."""
        for image in {image_id, *(mount.image_id for mount in config.mounts)}:
            self.release(image, container_id)

    def release(self, image_id: str, container_id: str) -> None:
        if image_id and image_id != HOST:
            self._store.release(image_id, f"{self._owner}-{container_id}")

    async def sweep(self) -> None:
        await asyncio.to_thread(self._store.sweep, True)


class ImageCalls:
    """The runtime's operations on images and disk."""

    _images: NodeImages
    _records: Records
    _containers: Mapping[str, Container]

    async def image_status(self, image: str, handler: str = "") -> ImageState | None:
        return self._images.status(image)

    async def pull_image(self, image: str, credentials: Credentials | None = None, handler: str = "") -> str:
        return await self._images.pull(image, credentials)

    async def images(self) -> list[ImageState]:
        return self._images.list()

    async def remove_image(self, image_id: str) -> None:
        await self._images.remove(image_id)

    async def images_folder(self) -> Path | None:
        return self._images.folder

    async def writable_layer(self, container_id: str) -> Path | None:
        return self._records.folder(container_id) / "upper"

    async def pod_files(self, uid: str) -> list[Path]:
        return self._records.pod_files(uid)

    async def reclaim_disk(self) -> None:
        ended = [self._records.folder(cid) / "upper" for cid, item in self._containers.items() if item.exited]
        await asyncio.to_thread(_remove_all, ended)
        await self._images.sweep()


def _reference(name: str) -> Reference:
    try:
        return parse(name)
    except InvalidReference as error:
        raise invalid_image(name, str(error)) from error


def _state(image: StoredImage) -> ImageState:
    return ImageState(image.id, image.tags, image.digests, image.size_bytes, image.settings.user, pinned=image.loaded)


def _image(image: StoredImage, reference: str) -> Image:
    settings = image.settings
    return Image(
        image.id,
        image.rootfs,
        settings.entrypoint,
        settings.command,
        settings.environment,
        settings.working_dir,
        settings.user,
        settings.stop_signal,
        image.reported,
        _full_name(image, reference),
    )


def _full_name(image: StoredImage, reference: str) -> str:
    """The requested name in full, if it is one of the image's names; else the first of them."""
    names = (*image.tags, *image.digests)
    try:
        whole = str(parse(reference))
    except InvalidReference:
        whole = ""
    return whole if whole in names or not names else names[0]


def runs_on_host(image: str, argv: list[str]) -> str:
    """The warning for a container whose image was replaced by the host's files."""
    return (
        f'Image "{image}" is not on this node and was not pulled (--image-fallback host): '
        f"the container runs `{shlex.join(argv)}` on the node's own files"
    )


def _remove_all(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
