"""Maintains the dialect of each namespace: the one in its label, or the server's default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, POD, Kind
from podfit.api.resize.dialects import LABEL, NATIVE
from podfit.apiserver.dialects.base import Dialect
from podfit.apiserver.dialects.designs.design_2020 import Design2020
from podfit.apiserver.dialects.designs.design_2021 import Design2021
from podfit.apiserver.dialects.designs.v1_31 import V131
from podfit.apiserver.dialects.designs.v1_32 import V132
from podfit.apiserver.dialects.strategy import DialectStrategy
from podfit.apiserver.storage.events import WatchEvent

OLDER: tuple[type[Dialect], ...] = (Design2020, Design2021, V131, V132)
FOLLOWED = NAMESPACE.storage_prefix


class UnknownDialect(ValueError):
    """No dialect has that name; the message lists the existing ones."""

    exit_code = 2


class Dialects:
    """Follows the labels of namespaces. A namespace without one costs a dictionary lookup, and nothing if no namespace
    has one."""

    def __init__(self, default: str = NATIVE, changed_in: Callable[[str], None] = lambda namespace: None) -> None:
        """`changed_in` is called when an existing namespace changes its dialect."""
        self.by_name: dict[str, Dialect] = {kind.name: kind() for kind in OLDER}
        if default != NATIVE and default not in self.by_name:
            known = ", ".join((*self.by_name, NATIVE))
            raise UnknownDialect(f"unknown resize dialect {default!r}; known are {known}")
        self.strategies = {name: DialectStrategy(dialect) for name, dialect in self.by_name.items()}
        self._default = self.by_name.get(default)
        self._labelled: dict[str, Dialect | None] = {}
        self.active = self._default is not None
        self._changed_in = changed_in

    def of(self, namespace: str) -> Dialect | None:
        """The dialect of the namespace; None for the native form."""
        return self._labelled.get(namespace, self._default) if self.active else None

    @property
    def default(self) -> str:
        """The dialect of namespaces without a label."""
        return NATIVE if self._default is None else self._default.name

    def announced(self, kind: Kind) -> Kind:
        """The kind with the subresources that discovery and OpenAPI list: those of the default dialect."""
        if kind != POD or self._default is None or self._default.on_resize:
            return kind
        return replace(kind, subresources=tuple(sub for sub in kind.subresources if sub.name != "resize"))

    def learn(self, namespace: Object) -> None:
        self._set(namespace["metadata"]["name"], _label(namespace))

    def changed(self, event: WatchEvent) -> None:
        """Called by the hub for each change of a namespace."""
        if event.new is None:
            self._set(event.name, None)
            return
        self.learn(event.new)
        if event.old is not None and _label(event.old) != _label(event.new):
            self._changed_in(event.name)

    def _set(self, name: str, label: str | None) -> None:
        if label in self.by_name or label == NATIVE:
            self._labelled[name] = self.by_name.get(label or "")
        else:
            self._labelled.pop(name, None)
        self.active = self._default is not None or any(self._labelled.values())


def _label(namespace: Object) -> str | None:
    """The value of the label; None also for malformed labels, which may have been written directly to the store."""
    labels = namespace["metadata"].get("labels")
    label = labels.get(LABEL) if isinstance(labels, dict) else None
    return label if isinstance(label, str) else None
