"""The metrics of the API server at /metrics, under Kubernetes' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from podfit.apiserver.routes import Route
from podfit.kit.series import Counter, Gauge, Histogram

_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component", "dry_run")
_VERBS = {"create": "POST", "update": "PUT", "": "OTHER"}
_VALUES = {
    "verb": ("GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "DELETE", "DELETECOLLECTION", "CONNECT", "OTHER"),
    "scope": ("", "cluster", "namespace", "resource"),
    "component": ("apiserver",),
}
_DRY_RUN = ("", "All")
_CONNECTS = frozenset(("exec", "attach", "portforward", "proxy"))


class Metrics:
    def __init__(self, is_served: Callable[[Route], bool] = lambda route: True) -> None:
        """`is_served`: whether the resource of a route exists."""
        self._is_served = is_served
        self.registry = CollectorRegistry()
        requests = Counter("apiserver_request", "Requests answered.", (*_LABELS, "code"), registry=self.registry)
        self._requests = requests.may_have(**_VALUES, dry_run=_DRY_RUN)
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Time to answer a request.",
            _LABELS,
            buckets=_BUCKETS,
            registry=self.registry,
        ).may_have(**_VALUES, dry_run=_DRY_RUN)
        self._inflight = Gauge(
            "apiserver_current_inflight_requests",
            "Requests being answered now.",
            ("request_kind",),
            registry=self.registry,
        ).with_values(request_kind=("readOnly", "mutating"))
        self._watches = Gauge(
            "apiserver_longrunning_requests",
            "Watches open now.",
            ("verb", "group", "version", "resource", "subresource", "scope", "component"),
            registry=self.registry,
        ).may_have(**{**_VALUES, "verb": ("WATCH",)})
        self._events = Counter(
            "apiserver_watch_events",
            "Events sent to watchers.",
            ("group", "version", "resource"),
            registry=self.registry,
        )
        self._children: dict[tuple[Any, ...], tuple[Counter, Histogram]] = {}
        """Series by the attributes of request and response that determine the labels: computing labels costs more than
        counting."""
        self.reading = self._inflight.labels("readOnly")
        self.mutating = self._inflight.labels("mutating")

    def answered(self, route: Route | None, code: int, seconds: float, dry_run: bool) -> None:
        key: tuple[Any, ...] = (code, dry_run)
        if route is not None:
            scope = 2 if route.name else 1 if route.namespace else 0
            key = (route.verb, route.group, route.version, route.resource, route.subresource, scope, code, dry_run)
        found = self._children.get(key)
        if found is None and route is not None and not self._is_served(route):
            # A client may request any name: only served ones become labels.
            self.answered(None, code, seconds, dry_run)
            return
        if found is None:
            labels = (*_labels(route), "All" if dry_run else "")
            found = self._children[key] = (
                self._requests.labels(*labels, str(code)),
                self._seconds.labels(*labels),
            )
            if len(self._children) > 20000:
                self._children.clear()
        found[0].inc()
        found[1].observe(seconds)

    def watching(self, route: Route) -> Gauge:
        """The gauge of open watches with these labels."""
        return self._watches.labels(*_labels(route))

    def watch_events(self, route: Route) -> Counter:
        """The counter of events sent to watches of this resource."""
        return self._events.labels(route.group, route.version, route.resource)

    def text(self) -> bytes:
        return generate_latest(self.registry)


def _labels(route: Route | None) -> tuple[str, ...]:
    if route is None:
        return ("GET", "", "", "", "", "", "apiserver")
    verb = _VERBS.get(route.verb, route.verb.upper())
    if route.subresource in _CONNECTS:
        verb = "CONNECT"
    scope = "resource" if route.name else "namespace" if route.namespace else "cluster"
    return (verb, route.group, route.version, route.resource, route.subresource, scope, "apiserver")
