"""Finds the registry credentials of a pod: from its imagePullSecrets, then from the node's own Docker configuration."""

from __future__ import annotations

import logging

from podfit.agent.furnish.volumes.objects import ReferencedObjects
from podfit.agent.pods.events import WARNING, Events
from podfit.agent.pods.record import PodRecord
from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.images.references import Reference
from podfit.images.registries.credentials import Credentials, keyring_in, keyring_of, user_file

log = logging.getLogger(__name__)


class PullSecrets:
    def __init__(self, objects: ReferencedObjects, events: Events) -> None:
        self._objects, self._events = objects, events

    async def credentials(self, record: PodRecord, image: Reference) -> list[Credentials]:
        """The pod's own credentials for an image, best match first. Raises BadCredentials for a damaged Secret."""
        return keyring_of(await self._secrets(record)).lookup(image)

    @staticmethod
    def of_node(image: Reference) -> list[Credentials]:
        """The credentials that every pod of the node may use, tried after the pod's own."""
        return keyring_in(user_file()).lookup(image)

    async def _secrets(self, record: PodRecord) -> list[Object]:
        names = [ref["name"] for ref in record.pod["spec"].get("imagePullSecrets") or () if ref.get("name")]
        found, missing = [], []
        for name in names:
            try:
                secret = await self._objects.secret(record.namespace, name)
            except (ApiError, Unreachable) as error:
                log.info("pull secret %s/%s: %s", record.namespace, name, error)
                secret = None
            if secret is None:
                missing.append(name)
            else:
                found.append(secret)
        if missing:
            why = f"Unable to retrieve some image pull secrets ({', '.join(missing)})"
            what = f"{why}; attempting to pull the image may not succeed."
            self._events.emit(record.pod, WARNING, "FailedToRetrieveImagePullSecret", what)
        return found
