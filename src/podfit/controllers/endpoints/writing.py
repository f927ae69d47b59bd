"""Writes slices, and tracks which of its writes the cache does not show yet: nothing is decided on a stale view."""

from __future__ import annotations

import re

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError, is_namespace_going
from podfit.client import Client
from podfit.client.cache import Cache
from podfit.controllers.endpoints.packing import SliceChanges

SLICE = kind_named("EndpointSlice")
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
Key = tuple[str, str]
_LONGEST_NAME = 63 - 5


def prefix_of(name: str) -> str:
    """The prefix of a slice's name; only the name of the Service if the dash would not fit."""
    prefix = f"{name}-"
    return prefix if len(prefix) <= _LONGEST_NAME and re.match("[a-z0-9]", prefix) else name


class SliceWriter:
    def __init__(self, client: Client, cache: Cache, controller: str) -> None:
        self._client, self._cache, self._controller = client, cache, controller
        self._expected: dict[Key, dict[str, int | None]] = {}
        """By Service: generations of slices that were written last; None for deleted ones."""

    def slices(self, key: Key) -> list[Object] | None:
        """The slices of a Service that this controller manages; None while the cache lags behind its writes."""
        expected = self._expected.get(key)
        if expected is not None:
            for name, generation in expected.items():
                row = self._cache.get(key[0], name)
                if generation is None and row is not None and not row["metadata"].get("deletionTimestamp"):
                    return None
                if generation is not None and (row is None or row["metadata"].get("generation", 0) < generation):
                    return None
            del self._expected[key]
        return [
            row
            for row in self._cache.by("namespace", key[0])
            if service_of(row, self._controller) == key[1] and not row["metadata"].get("deletionTimestamp")
        ]

    async def write(self, key: Key, plan: SliceChanges) -> None:
        expected = self._expected.setdefault(key, {})
        try:
            for row in plan.create:
                made = await self._client.create(SLICE, row, key[0])
                expected[made["metadata"]["name"]] = made["metadata"].get("generation", 0)
            for row in plan.update:
                made = await self._client.update(SLICE, row)
                expected[made["metadata"]["name"]] = made["metadata"].get("generation", 0)
            for row in plan.delete:
                await self._client.delete(SLICE, key[0], row["metadata"]["name"])
                expected[row["metadata"]["name"]] = None
        except ApiError as error:
            # The cache is outdated; its next event enqueues the Service again.
            expected.clear()
            if error.code != 404 and not is_namespace_going(error):
                raise
        if not expected:
            self._expected.pop(key, None)


def service_of(row: Object, controller: str) -> str:
    labels = row["metadata"].get("labels") or {}
    return str(labels.get(SERVICE_NAME, "")) if labels.get(MANAGED_BY) == controller else ""


def owner(api_version: str, kind: str, obj: Object) -> Object:
    meta = obj["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
