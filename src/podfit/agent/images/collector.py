"""Reports the images of the node, and deletes unused ones when the image disk fills up or the node is under disk
pressure."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from msgspec.structs import replace

from podfit.agent.decide.node import images as rules
from podfit.agent.decide.node.images import ImageDisk, ImagePolicy, ImageUse
from podfit.agent.node.node import NodeKeeper
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.client.recording.events import EventRecorder
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock

log = logging.getLogger(__name__)

LIST_S, COLLECT_S = 30.0, 300.0


class ImageCollector:
    def __init__(
        self,
        runtime: Runtime,
        node: NodeKeeper,
        recorder: EventRecorder,
        policy: ImagePolicy,
        clock: Clock,
        on_listed: Callable[[set[str]], None],
    ) -> None:
        """`on_listed`: called after each listing with the ids of all images seen recently."""
        self._runtime, self._node, self._recorder, self.policy, self._clock = runtime, node, recorder, policy, clock
        self._on_listed = on_listed
        self._known: dict[str, ImageUse] = {}
        self._listed: set[str] = set()
        self.disk: Callable[[str], ImageDisk] = _disk

    async def run(self) -> None:
        collect_at = self._clock.monotonic() + COLLECT_S
        while True:
            try:
                await self.report()
                if self._clock.monotonic() >= collect_at:
                    collect_at = self._clock.monotonic() + COLLECT_S
                    await self.collect()
            except (RuntimeFailure, OSError, ApiError, Unreachable) as error:
                log.info("images of %s: %s", self._node.name, error)  # the next round tries again
            await self._clock.sleep(LIST_S)

    async def report(self) -> None:
        images = await self._runtime.images()
        before, self._listed = self._listed, {image.id for image in images}
        # The list may be older than an image that was pulled after the request.
        self._on_listed(before | self._listed)
        found = rules.reported(images)
        if found == self._node.images or not self._node.known:
            return
        self._node.images = found
        await self._node.publish()

    # --- deleting
    async def collect(self) -> None:
        """Deletes unused images if the image disk is above its threshold. An Event reports if that is not enough."""
        folder = await self._runtime.images_folder()
        if folder is None:
            return
        disk, unused = self.disk(str(folder)), await self._unused()
        wanted = rules.bytes_to_free(disk, self.policy)
        if wanted <= 0:
            return
        freed = await self._delete(unused, wanted, self.policy.min_age_s)
        if freed < wanted:
            self._warn(disk, freed)

    async def delete_unused(self) -> None:
        """Deletes all of them: under disk pressure pods would be evicted otherwise."""
        await self._delete(await self._unused(), None, 0.0)

    async def _unused(self) -> list[ImageUse]:
        images, now = await self._runtime.images(), self._clock.now()
        containers = [container for pod in await self._runtime.pods() for container in pod.containers]
        known, self._known, unused = self._known, {}, []
        for image in images:
            seen = known.get(image.id) or ImageUse(image.id, image.size_bytes, now, 0.0)
            used = rules.in_use(image, containers)
            self._known[image.id] = seen = replace(seen, last_used=now) if used else seen
            if not used and not image.pinned:
                unused.append(seen)
        return unused

    async def _delete(self, unused: list[ImageUse], wanted: int | None, min_age_s: float) -> int:
        freed = 0
        for image in rules.deletable(unused, self._clock.now(), min_age_s):
            if wanted is not None and freed >= wanted:
                break
            try:
                await self._runtime.remove_image(image.id)
            except (RuntimeFailure, OSError) as error:
                log.info("image %s stays: %s", image.id, error)
                continue
            log.info("deleted image %s (%d bytes), which no container uses", image.id, image.size_bytes)
            self._known.pop(image.id, None)
            freed += image.size_bytes
        return freed

    def _warn(self, disk: ImageDisk, freed: int) -> None:
        about: Object = {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {"name": self._node.name, "uid": self._node.name},
        }
        message = (
            f"Insufficient free disk space on the node's image filesystem ({disk.usage_percent}% of "
            f"{_size(disk.capacity_bytes)} used). Failed to free sufficient space by deleting unused images "
            f"(freed {freed} bytes). Investigate disk usage, as it could be used by active images, logs, volumes, "
            "or other data."
        )
        self._recorder.record(about, "Warning", "FreeDiskSpaceFailed", message, "")


def _disk(folder: str) -> ImageDisk:
    found = os.statvfs(folder)
    return ImageDisk(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{int(size)} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
