"""A pod with other sizes than its spec has, and what is made of them again and again: sums, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.agent.decide.states import Object, Resources, Sizes, clean, resized
from podfit.api.quantity import canonical
from podfit.api.resources import Amounts, pod_limits, pod_requests


class Sized:
    """Each part is worked out once, when first asked for.

    Stands for one state of the pod and one set of sizes, neither of which ever changes (ADR 5).
    """

    __slots__ = ("_limits", "_pod", "_requests", "_resized", "_shown", "_sizes")

    def __init__(self, pod: Mapping[str, Any], sizes: Sizes) -> None:
        self._pod, self._sizes = pod, sizes
        self._resized: Object | None = None
        self._requests: Amounts | None = None
        self._limits: Amounts | None = None
        self._shown: dict[str, Object] | None = None

    def stands_for(self, pod: Mapping[str, Any], sizes: Sizes) -> bool:
        """By identity: a promise shares what it holds with the wish it was made from."""
        mine = self._sizes
        return pod is self._pod and sizes.containers is mine.containers and sizes.pod is mine.pod

    @property
    def pod(self) -> Object:
        """The pod with these sizes in its spec."""
        if self._resized is None:
            self._resized = resized(self._pod, self._sizes)
        return self._resized

    @property
    def requests(self) -> Amounts:
        if self._requests is None:
            self._requests = pod_requests(self.pod)
        return self._requests

    @property
    def limits(self) -> Amounts:
        if self._limits is None:
            self._limits = pod_limits(self.pod)
        return self._limits

    @property
    def shown(self) -> Mapping[str, Object]:
        """The sizes of the containers as Kubernetes prints them, by name. Read only."""
        if self._shown is None:
            self._shown = {name: tidy(resources) for name, resources in self._sizes.containers.items()}
        return self._shown


def tidy(resources: Resources | None) -> Object:
    """Quantities in their canonical form, keys sorted."""
    return {key: {name: canonical(listed[name]) for name in sorted(listed)} for key, listed in clean(resources).items()}
