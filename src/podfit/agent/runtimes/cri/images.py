"""Lists, pulls and removes images of the runtime. Policy, credentials and back-off are the agent's."""

from __future__ import annotations

from pathlib import Path

from podfit.agent.runtimes.cri.failures import failure
from podfit.agent.runtimes.values import ImageMissing, ImageState, RuntimeFailure
from podfit.cri import CriClient, CriError
from podfit.cri import api_pb2 as api
from podfit.images.registries.credentials import Credentials


class Images:
    def __init__(self, client: CriClient) -> None:
        self._client = client
        self.sandbox = ""
        """The image of sandboxes. Older runtimes do not report it as pinned, though every new pod needs it."""

    async def status(self, image: str, handler: str = "") -> ImageState | None:
        request = api.ImageStatusRequest(image=api.ImageSpec(image=image, runtime_handler=handler))
        try:
            answer = await self._client.ask("ImageStatus", request)
        except CriError as error:
            raise failure(error) from error
        return self._state(answer.image) if answer.HasField("image") and answer.image.id else None

    async def pull(self, image: str, credentials: Credentials | None, handler: str) -> str:
        spec = api.ImageSpec(image=image, runtime_handler=handler)
        request = api.PullImageRequest(image=spec, auth=_auth(credentials))
        try:
            answer = await self._client.ask("PullImage", request)
        except CriError as error:
            raise ImageMissing(error.words) from error
        return str(answer.image_ref)

    async def all(self) -> list[ImageState]:
        try:
            answer = await self._client.ask("ListImages", api.ListImagesRequest())
        except CriError as error:
            raise failure(error) from error
        return [self._state(image) for image in answer.images]

    async def remove(self, image_id: str) -> None:
        """Removes an image. Runtimes would also remove one that is in use, so the containers of all agents are listed
        first."""
        try:
            listed = await self._client.ask("ListContainers", api.ListContainersRequest())
        except CriError as error:
            raise failure(error) from error
        state = await self.status(image_id)
        if state is None:
            return
        names = {state.id, *state.tags, *state.digests}
        if any(container.image_ref in names or container.image.image in names for container in listed.containers):
            raise RuntimeFailure(f"image {image_id} is in use")
        try:
            await self._client.ask("RemoveImage", api.RemoveImageRequest(image=api.ImageSpec(image=image_id)))
        except CriError as error:
            raise failure(error) from error

    async def folder(self) -> Path | None:
        try:
            answer = await self._client.ask("ImageFsInfo", api.ImageFsInfoRequest())
        except CriError:
            return None
        places = [
            Path(filesystem.fs_id.mountpoint) for filesystem in answer.image_filesystems if filesystem.fs_id.mountpoint
        ]
        return places[0] if places and places[0].is_dir() else None

    def _state(self, image: api.Image) -> ImageState:
        return ImageState(
            image.id,
            tuple(image.repo_tags),
            tuple(image.repo_digests),
            image.size,
            str(image.uid.value) if image.HasField("uid") else image.username,
            image.pinned or bool(self.sandbox and self.sandbox in image.repo_tags),
        )


def _auth(credentials: Credentials | None) -> api.AuthConfig | None:
    if credentials is None:
        return None
    return api.AuthConfig(
        username=credentials.username,
        password=credentials.password,
        identity_token=credentials.identity_token,
        registry_token=credentials.registry_token,
    )
