"""The chain: enabled plugins in Kubernetes' order, run phase by phase.

`build` makes it from the names to enable and disable. Which plugins a write concerns is worked out once for each
(operation, resource, subresource) and phase, so a write that concerns none costs one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Sequence

from podfit.apiserver.admission.base import Attributes, Plugin

_Key = tuple[str, str, str, str, str]


class Chain:
    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self.plugins = tuple(plugins)
        self._mutating: dict[_Key, tuple[Plugin, ...]] = {}
        self._validating: dict[_Key, tuple[Plugin, ...]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(plugin.name for plugin in self.plugins)

    async def admit(self, attrs: Attributes) -> None:
        """The mutating phase: before the strategy and field validation. May change `attrs.object`."""
        kind = attrs.kind
        key = (attrs.operation, kind.group, kind.plural, kind.version, attrs.subresource)
        plugins = self._mutating.get(key)
        if plugins is None:
            plugins = self._mutating[key] = self._concerned(attrs, "admit")
        for plugin in plugins:
            await plugin.admit(attrs)

    async def validate(self, attrs: Attributes) -> None:
        """The validating phase: after field validation, right before storing."""
        kind = attrs.kind
        key = (attrs.operation, kind.group, kind.plural, kind.version, attrs.subresource)
        plugins = self._validating.get(key)
        if plugins is None:
            plugins = self._validating[key] = self._concerned(attrs, "validate")
        for plugin in plugins:
            await plugin.validate(attrs)

    def _concerned(self, attrs: Attributes, phase: str) -> tuple[Plugin, ...]:
        inherited = getattr(Plugin, phase)
        return tuple(p for p in self.plugins if getattr(type(p), phase) is not inherited and p.handles(attrs))
