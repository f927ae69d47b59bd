"""Maintains which pods belong to which Service, incrementally: no change scans all pods.

A changed pod is matched with the Services of its namespace, a changed selector with the pods of its namespace.
"""

from __future__ import annotations

from collections.abc import Callable

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.client import Cache
from podfit.controllers.context import ControllerContext
from podfit.controllers.endpoints.pods import relevant

SERVICE = kind_named("Service")
Key = tuple[str, str]


class Members:
    def __init__(self, context: ControllerContext, enqueue: Callable[[Key], None]) -> None:
        self.services: Cache = context.cache(SERVICE)
        self._pods: Cache = context.cache(POD)
        self._enqueue = enqueue
        self._selectors: dict[Key, dict[str, str]] = {}
        self._by_namespace: dict[str, set[Key]] = {}
        self._members: dict[Key, set[str]] = {}
        self.services.subscribe(self._service_changed)
        self._pods.subscribe(self._pod_changed)

    def pods(self, key: Key) -> list[Object]:
        found = (self._pods.get(key[0], name) for name in sorted(self._members.get(key, ())))
        return [pod for pod in found if pod is not None]

    def _service_changed(self, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        key = (meta["namespace"], meta["name"])
        selector = None if after is None else (after.get("spec") or {}).get("selector") or None
        if selector is None:
            self._selectors.pop(key, None)
            self._members.pop(key, None)
            self._by_namespace.get(key[0], set()).discard(key)
        elif self._selectors.get(key) != selector:
            self._selectors[key] = selector
            self._by_namespace.setdefault(key[0], set()).add(key)
            found = self._pods.by("namespace", key[0])
            self._members[key] = {pod["metadata"]["name"] for pod in found if _matches(selector, pod)}
        self._enqueue(key)

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        services = self._by_namespace.get(meta["namespace"])
        if not services or (before is not None and after is not None and relevant(before) == relevant(after)):
            return
        for key in tuple(services):
            selector, members = self._selectors[key], self._members[key]
            known = meta["name"] in members
            if after is not None and _matches(selector, after):
                members.add(meta["name"])
            elif known:
                members.discard(meta["name"])
            else:
                continue
            self._enqueue(key)


def _matches(selector: dict[str, str], pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in selector.items())
