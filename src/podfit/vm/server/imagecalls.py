"""CRI's image service, on the runtime's image store."""

from __future__ import annotations

import os
import time
from typing import Any

from podfit.cri import api_pb2 as cri
from podfit.images.index import StoredImage
from podfit.vm.guest.images import Images
from podfit.vm.server.answers import answered


def described(stored_image: StoredImage) -> cri.Image:
    """The image as a CRI message. Its user is either a number or a name; the group is left out."""
    user = stored_image.settings.user.partition(":")[0]
    number = not user or user.isdigit()
    return cri.Image(
        id=stored_image.id,
        repo_tags=stored_image.tags,
        repo_digests=stored_image.digests,
        size=stored_image.size_bytes,
        uid=cri.Int64Value(value=int(user or 0)) if number else None,
        username="" if number else user,
        spec=cri.ImageSpec(image=stored_image.id),
    )


class ImageCalls:
    def __init__(self, images: Images) -> None:
        self._images = images

    @answered
    async def ListImages(self, request: cri.ListImagesRequest, _context: Any) -> cri.ListImagesResponse:
        wanted = request.filter.image.image
        found = [self._images.find(wanted)] if wanted else self._images.all()
        return cri.ListImagesResponse(images=[described(image) for image in found if image is not None])

    @answered
    async def ImageStatus(self, request: cri.ImageStatusRequest, _context: Any) -> cri.ImageStatusResponse:
        found = self._images.find(request.image.image)
        return cri.ImageStatusResponse(image=described(found) if found is not None else None)

    @answered
    async def PullImage(self, request: cri.PullImageRequest, _context: Any) -> cri.PullImageResponse:
        return cri.PullImageResponse(image_ref=(await self._images.pull(request.image.image, request.auth)).id)

    @answered
    async def RemoveImage(self, request: cri.RemoveImageRequest, _context: Any) -> cri.RemoveImageResponse:
        self._images.remove(request.image.image)
        return cri.RemoveImageResponse()

    @answered
    async def ImageFsInfo(self, _request: cri.ImageFsInfoRequest, _context: Any) -> cri.ImageFsInfoResponse:
        folder = self._images.folder
        files = [path.stat() for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
        usage = cri.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=cri.FilesystemIdentifier(mountpoint=os.fspath(folder)),
            used_bytes=cri.UInt64Value(value=sum(about.st_blocks * 512 for about in files)),
            inodes_used=cri.UInt64Value(value=len(files)),
        )
        return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])
