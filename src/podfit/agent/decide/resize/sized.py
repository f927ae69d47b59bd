"""A pod with sizes other than those of its spec, and derived values: sums, and their form in a status."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from podfit.api.objects import Object
from podfit.api.pods.resources import Amounts, pod_limits, pod_requests
from podfit.api.quantity import canonical
from podfit.api.resize.states import Resources, Sizes, clean, resized, shared


class Sized:
    """A pod with a set of sizes. Each derived value is computed once, on first use.

    Belongs to one state of the pod and one set of sizes, neither of which ever changes (ADR 5).
    """

    __slots__ = ("_as_requested", "_limits", "_requests", "_resized", "_shown", "_sizes", "_totals", "origin")

    def __init__(self, pod: Object, sizes: Sizes, as_requested: bool = False) -> None:
        """`as_requested`: the sizes are those of the pod's own spec, so the pod is used unchanged."""
        self.origin, self._sizes, self._as_requested = pod, sizes, as_requested
        self._resized: Object | None = pod if as_requested else None
        self._requests: Amounts | None = None
        self._limits: Amounts | None = None
        self._shown: dict[str, Object] | None = None
        self._totals: dict[str, dict[str, str]] | None = None

    def stands_for(self, pod: Object, sizes: Sizes) -> bool:
        """Whether this is the pod with these sizes. Compares by identity: an allocation shares its amounts with the
        request that it came from."""
        return pod is self.origin and shared(sizes, self._sizes)

    def of(self, pod: Object) -> Sized:
        """A copy for another state of the pod with the same spec and sizes."""
        other = Sized(pod, self._sizes, self._as_requested)
        other._requests, other._limits = self._requests, self._limits
        other._shown, other._totals = self._shown, self._totals
        return other

    @property
    def pod(self) -> Object:
        """The pod with these sizes in its spec."""
        if self._resized is None:
            self._resized = resized(self.origin, self._sizes)
        return self._resized

    @property
    def requests(self) -> Amounts:
        if self._requests is None:
            self._requests = pod_requests(self.pod)
        return self._requests

    @property
    def held(self) -> Amounts:
        """The resources that the pod occupies on its node: the maximum of these sizes and those in its status."""
        if self._status_agrees():
            return self.requests
        return pod_requests(self.pod, use_status=True)

    def _status_agrees(self) -> bool:
        """Whether the status has exactly these requests, written the same way."""
        sizes, status = self._sizes, self.origin.get("status") or {}
        if sizes.pod is not None:
            return False
        for kind in ("containerStatuses", "initContainerStatuses"):
            for container_status in status.get(kind) or ():
                reported = container_status.get("resources")
                if reported is None:
                    continue
                if (size := sizes.containers.get(container_status.get("name"))) is None:
                    return False
                mine = size.get("requests") or {}
                if (reported.get("requests") or {}) != mine or (
                    container_status.get("allocatedResources") or mine
                ) != mine:
                    return False
        return True

    @property
    def limits(self) -> Amounts:
        if self._limits is None:
            self._limits = pod_limits(self.pod)
        return self._limits

    @property
    def rendered(self) -> Mapping[str, Object]:
        """The sizes of the containers as Kubernetes prints them, by name. Read only."""
        if self._shown is None:
            self._shown = {name: tidy(resources) for name, resources in self._sizes.containers.items()}
        return self._shown

    @property
    def totals(self) -> Mapping[str, Mapping[str, str]]:
        """`limits` and `requests` of the whole pod as Kubernetes prints them. Read only."""
        if self._totals is None:
            self._totals = {"limits": _printed(self.limits), "requests": _printed(self.requests)}
        return self._totals


# The same few texts are printed in every pass, so they are cached. An entry is never stale: a text always stands for
# the same number.
_canonical = lru_cache(maxsize=4096, typed=True)(canonical)


def _printed(amounts: Amounts) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}


def tidy(resources: Resources | None) -> Object:
    """The quantities in canonical form, with sorted keys."""
    return {
        key: {name: _canonical(listed[name]) for name in sorted(listed)} for key, listed in clean(resources).items()
    }
