"""What the server tells about itself at /metrics, under the names Kubernetes uses."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from podfit.apiserver.routes import Route

_BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component", "dry_run")
_VERBS = {"create": "POST", "update": "PUT", "": "OTHER"}
_CONNECTS = frozenset(("exec", "attach", "portforward", "proxy"))


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("apiserver_request", "Requests answered.", (*_LABELS, "code"), registry=self.registry)
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Time to answer a request.",
            _LABELS,
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._inflight = Gauge(
            "apiserver_current_inflight_requests",
            "Requests being answered now.",
            ("request_kind",),
            registry=self.registry,
        )
        self._watches = Gauge(
            "apiserver_longrunning_requests",
            "Watches and other long requests open now.",
            ("verb", "group", "version", "resource", "subresource", "scope", "component"),
            registry=self.registry,
        )
        self._events = Counter(
            "apiserver_watch_events", "Events sent to watchers.", ("group", "version", "kind"), registry=self.registry
        )
        self._children: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.reading = self._inflight.labels("readOnly")
        self.mutating = self._inflight.labels("mutating")

    def answered(self, route: Route | None, code: int, seconds: float, dry_run: bool) -> None:
        key = (
            (route.verb, route.group, route.version, route.resource, route.subresource, bool(route.name))
            if route
            else None
        )
        full = (key, code, dry_run)
        found = self._children.get(full)
        if found is None:
            labels = (*_labels(route), "All" if dry_run else "")
            found = self._children[full] = (
                self._requests.labels(*labels, str(code)),
                self._seconds.labels(*labels),
            )
            if len(self._children) > 20000:
                self._children.clear()
        found[0].inc()
        found[1].observe(seconds)

    def long_running(self, route: Route) -> Any:
        return self._watches.labels(*_labels(route))

    def watch_events(self, group: str, version: str, kind: str) -> Any:
        return self._events.labels(group, version, kind)

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
