"""The table of handlers for subresources and for kinds that are not stored. All others are served by the plain
verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from podfit.api.registry.kinds import Kind
from podfit.apiserver.calls import Call
from podfit.apiserver.request import Response

Handler = Callable[[Call], Awaitable[Response]]


class Handlers:
    def __init__(self) -> None:
        self.kinds: dict[tuple[str, str], Handler] = {}
        """Handlers by (group, plural), for kinds that are answered and never stored, such as reviews and bindings."""
        self._subresources: dict[tuple[str, str, str], Handler] = {}
        self._anywhere: dict[str, Handler] = {}

    def add(self, group: str, plural: str, subresource: str, handler: Handler) -> None:
        self._subresources[group, plural, subresource] = handler

    def add_anywhere(self, subresource: str, handler: Handler) -> None:
        """Adds a handler for a subresource with the same meaning in all kinds, such as scale."""
        self._anywhere[subresource] = handler

    def subresource(self, kind: Kind, name: str, verb: str) -> Handler | None:
        return self._subresources.get((kind.group, kind.plural, name)) or self._anywhere.get(name)
