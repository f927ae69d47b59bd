"""Selects the images that a node deletes when its image disk is full, and those that it reports, by the kubelet's
rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from podfit.agent.runtimes.values import ContainerState, ImageState
from podfit.api.objects import Object

MOST_REPORTED, MOST_NAMES = 50, 5


class ImagePolicy(Struct, frozen=True):
    high_percent: int = 85
    """Usage of the disk from which images are deleted."""
    low_percent: int = 80
    """Usage down to which they are deleted."""
    min_age_s: float = 120.0
    """A younger image is kept: it was pulled for a container that is about to start."""


class ImageDisk(Struct, frozen=True):
    capacity_bytes: int
    available_bytes: int

    @property
    def usage_percent(self) -> int:
        return 100 - min(self.available_bytes, self.capacity_bytes) * 100 // self.capacity_bytes


class ImageUse(Struct, frozen=True):
    id: str
    size_bytes: int
    first_seen: float
    last_used: float
    """0 for an image that was never used."""


def bytes_to_free(disk: ImageDisk, policy: ImagePolicy) -> int:
    """The bytes to free; 0 below the high threshold."""
    if disk.capacity_bytes <= 0 or disk.usage_percent < policy.high_percent:
        return 0
    return disk.capacity_bytes * (100 - policy.low_percent) // 100 - disk.available_bytes


def deletable(unused: Iterable[ImageUse], now: float, min_age_s: float) -> list[ImageUse]:
    """The images that may be deleted, those unused for the longest time first."""
    old = [image for image in unused if now - image.first_seen >= min_age_s]
    return sorted(old, key=lambda image: (image.last_used, image.first_seen, image.id))


def in_use(image: ImageState, containers: Iterable[ContainerState]) -> bool:
    names = {image.id, *image.digests}
    return any(container.image_id in names or container.image in image.tags for container in containers)


def reported(images: Sequence[ImageState]) -> list[Object]:
    """The images listed in the Node's status: the largest ones."""
    largest = sorted(images, key=lambda image: (-image.size_bytes, image.id))[:MOST_REPORTED]
    return [{"names": [*image.digests, *image.tags][:MOST_NAMES], "sizeBytes": image.size_bytes} for image in largest]
