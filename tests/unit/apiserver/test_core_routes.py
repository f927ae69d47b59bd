"""Parsing of request paths."""

from __future__ import annotations

import pytest

from podfit.apiserver.routes import Route, parse


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", Route("list", "", "v1", "pods")),
        ("GET", "/api/v1/namespaces/a/pods/b", Route("get", "", "v1", "pods", "a", "b")),
        ("PATCH", "/api/v1/namespaces/a/pods/b/resize", Route("patch", "", "v1", "pods", "a", "b", "resize")),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments",
            Route("deletecollection", "apps", "v1", "deployments", "a"),
        ),
        ("GET", "/api/v1/namespaces/a", Route("get", "", "v1", "namespaces", "a", "a")),
        ("GET", "/api/v1/namespaces/a/", Route("get", "", "v1", "namespaces", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", Route("update", "", "v1", "namespaces", "a", "a", "finalize")),
        ("GET", "/api/v1/watch/namespaces/a/pods", Route("watch", "", "v1", "pods", "a")),
        (
            "GET",
            "/api/v1/nodes/n/proxy/stats/summary",
            Route("get", "", "v1", "nodes", "", "n", "proxy", "/stats/summary"),
        ),
        ("GET", "/apis/apps/v1", Route("get", "apps", "v1")),
        ("FOO", "/api/v1/pods", Route("", "", "v1", "pods")),
    ],
)
def test_a_path_names_verb_resource_and_object(method: str, path: str, expected: Route) -> None:
    assert parse(method, path, {}) == expected


def test_a_watch_parameter_turns_a_list_into_a_watch() -> None:
    route = parse("GET", "/api/v1/pods", {"watch": ["1"]})
    assert route is not None and route.verb == "watch"
    route = parse("GET", "/api/v1/pods", {"watch": ["false"]})
    assert route is not None and route.verb == "list"


@pytest.mark.parametrize("path", ["/", "/healthz", "/api", "/apis", "/apis/apps", "/version", "/openapi/v3/api/v1"])
def test_other_paths_are_not_routes(path: str) -> None:
    assert parse("GET", path, {}) is None
