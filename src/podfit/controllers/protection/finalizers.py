"""Sets and removes one finalizer on the objects of one kind."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError
from podfit.client import Client


class Finalizer:
    def __init__(self, kind: Kind, word: str) -> None:
        self._kind, self._word = kind, word

    def held(self, obj: Object) -> bool:
        """Whether the object is being deleted and has this finalizer."""
        return bool(obj["metadata"].get("deletionTimestamp")) and self._word in self._of(obj)

    def lacking(self, obj: Object) -> bool:
        """Whether the object is not being deleted and lacks this finalizer: not every server sets it on creation."""
        return not obj["metadata"].get("deletionTimestamp") and self._word not in self._of(obj)

    async def add(self, client: Client, obj: Object) -> None:
        await self._write(client, obj, [*self._of(obj), self._word])

    async def remove(self, client: Client, obj: Object) -> None:
        await self._write(client, obj, [word for word in self._of(obj) if word != self._word])

    async def _write(self, client: Client, obj: Object, words: list[str]) -> None:
        try:
            await client.update(self._kind, {**obj, "metadata": {**obj["metadata"], "finalizers": words}})
        except ApiError as error:
            # Changed or deleted meanwhile: the cache delivers that, and triggers another pass.
            if error.code not in (404, 409):
                raise

    @staticmethod
    def _of(obj: Object) -> list[str]:
        return obj["metadata"].get("finalizers") or []
