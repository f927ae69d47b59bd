"""Every request gets Kubernetes' response or an error: never a crash, and never a 5xx of podfit's own."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.store.memory import MemoryStore

KINDS = [
    ("v1", "Pod", "/api/v1/namespaces/default/pods"),
    ("v1", "ConfigMap", "/api/v1/namespaces/default/configmaps"),
    ("v1", "Node", "/api/v1/nodes"),
    ("v1", "Service", "/api/v1/namespaces/default/services"),
    ("v1", "LimitRange", "/api/v1/namespaces/default/limitranges"),
    ("v1", "ResourceQuota", "/api/v1/namespaces/default/resourcequotas"),
    ("v1", "Event", "/api/v1/namespaces/default/events"),
    ("v1", "Namespace", "/api/v1/namespaces"),
    ("apps/v1", "Deployment", "/apis/apps/v1/namespaces/default/deployments"),
    ("batch/v1", "Job", "/apis/batch/v1/namespaces/default/jobs"),
    ("policy/v1", "PodDisruptionBudget", "/apis/policy/v1/namespaces/default/poddisruptionbudgets"),
    ("autoscaling/v1", "HorizontalPodAutoscaler", "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"),
    (
        "autoscaling.k8s.io/v1",
        "VerticalPodAutoscaler",
        "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers",
    ),
    (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    ),
    ("authorization.k8s.io/v1", "SubjectAccessReview", "/apis/authorization.k8s.io/v1/subjectaccessreviews"),
    ("events.k8s.io/v1", "Event", "/apis/events.k8s.io/v1/namespaces/default/events"),
]
WORDS = [
    "metadata", "name", "spec", "status", "containers", "resources", "requests", "limits", "cpu", "labels", "template",
    "selector", "matchLabels", "hard", "ports", "conditions", "finalizers", "kind", "apiVersion", "op", "path", "value",
    "replicas", "involvedObject", "versions", "names", "annotations", "ownerReferences", "managedFields", "$patch",
    "initContainers", "resizePolicy", "type", "data", "minAvailable", "rules", "deleteOptions", "target", "metrics",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.sampled_from(
        ["", "a", "100m", "x/y", "Always", "-1", "1Gi", "/data/a", "delete", "replace", "éß", "2021-01-01T00:00:00Z"]
    ),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)),
    max_leaves=12,
)
MEDIA = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]
KNOWN_500 = (
    "merge key",
    "patch type",
    "typed patch object",
    "target.",
    "strconv.ParseUint",
    "resourceVersion should not be set",
    "cannot yet be specified",
    "types are not identical",
    "doesn't match",
    "more than one PodDisruptionBudget",
)
"""Requests that Kubernetes itself answers with a 500."""


class Host:
    """One server for the whole module, on its own event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.server = ApiServer(Config(MemoryStore(), Path(self.folder.name)))
        self.loop.run_until_complete(self.server.start())
        for name, body in (
            ("serviceaccounts", {"metadata": {"name": "default"}}),
            ("configmaps", {"metadata": {"name": "a"}}),
        ):
            self.ask("POST", f"/api/v1/namespaces/default/{name}", json.dumps(body).encode())

    def ask(self, method: str, path: str, body: bytes = b"", media: str = "", **query: str) -> Response:
        request = Request(
            method, path, {key: [value] for key, value in query.items()}, {"content-type": media}, body, ADMIN
        )
        return self.loop.run_until_complete(self.server.handle(request))

    def stop(self) -> None:
        self.loop.run_until_complete(self.server.stop())
        self.loop.close()
        self.folder.cleanup()


@pytest.fixture(scope="module")
def host() -> Any:
    host = Host()
    yield host
    host.stop()


def sound(answer: Response) -> None:
    if answer.status >= 500:
        message = json.loads(answer.body).get("message", "")
        assert any(part in message for part in KNOWN_500), (answer.status, message)


FUZZ = settings(max_examples=150, suppress_health_check=list(HealthCheck))


@FUZZ
@given(
    kind=st.sampled_from(KINDS),
    body=st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=5),
    name=st.sampled_from(["a", "x.y", ""]),
)
def test_no_object_breaks_the_server(host: Host, kind: tuple[str, str, str], body: dict[str, Any], name: str) -> None:
    api_version, word, path = kind
    meta = body.get("metadata")
    whole = {**body, "apiVersion": api_version, "kind": word}
    whole["metadata"] = {**(meta if isinstance(meta, dict) else {}), "name": name}
    answer = host.ask("POST", path, json.dumps(whole).encode(), dryRun="All")
    sound(answer)
    sound(host.ask("POST", path, json.dumps(body).encode(), dryRun="All"))


@FUZZ
@given(media=st.sampled_from(MEDIA), patch=st.one_of(VALUES, st.lists(st.dictionaries(st.sampled_from(WORDS), VALUES))))
def test_no_patch_breaks_the_server(host: Host, media: str, patch: Any) -> None:
    query = {"dryRun": "All", **({"fieldManager": "m"} if media == MEDIA[3] else {})}
    sound(host.ask("PATCH", "/api/v1/namespaces/default/configmaps/a", json.dumps(patch).encode(), media, **query))
    sound(host.ask("PATCH", "/api/v1/namespaces/default", json.dumps(patch).encode(), media, **query))


@FUZZ
@given(
    raw=st.binary(max_size=60),
    method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]),
    media=st.sampled_from(["", *MEDIA, "application/yaml", "text/plain"]),
)
def test_no_bytes_break_the_server(host: Host, raw: bytes, method: str, media: str) -> None:
    path = "/api/v1/namespaces/default/configmaps" + ("" if method == "POST" else "/a")
    sound(host.ask(method, path, raw, media, dryRun="All", fieldManager="m"))


PARAMETERS = [
    *("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch"),
    *("timeoutSeconds", "sendInitialEvents", "includeObject"),
]
ARGUMENTS = ["0", "1", "-1", "Exact", "NotOlderThan", "a in (b)", "metadata.name=a", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"]
SHAPES = ["", *(f"application/json;as={word};v=v1;g=meta.k8s.io" for word in ("Table", "PartialObjectMetadataList"))]


def soon(query: dict[str, str]) -> bool:
    """The server waits for revisions far in the future; another test covers that."""
    return len(query.get("resourceVersion", "")) < 3


@FUZZ
@given(
    query=st.dictionaries(
        st.sampled_from(PARAMETERS), st.one_of(st.text(max_size=12), st.sampled_from(ARGUMENTS))
    ).filter(soon),
    accept=st.sampled_from(SHAPES),
)
def test_no_query_breaks_the_server(host: Host, query: dict[str, str], accept: str) -> None:
    request = Request(
        "GET",
        "/api/v1/namespaces/default/configmaps",
        {k: [v] for k, v in query.items()},
        {"accept": accept},
        b"",
        ADMIN,
    )
    sound(host.loop.run_until_complete(host.server.handle(request)))


PARTS = [
    *("api", "apis", "v1", "apps", "namespaces", "default", "pods", "a", "status", "scale", "watch", "proxy", ""),
    *("nodes", "..", "%2f", "openapi", "v3", "healthz"),
]
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "FOO"]


@FUZZ
@given(parts=st.lists(st.sampled_from(PARTS), max_size=8), method=st.sampled_from(METHODS))
def test_no_path_breaks_the_server(host: Host, parts: list[str], method: str) -> None:
    if "nodes" in parts and "proxy" in parts:
        return
    answer = host.ask(method, "/" + "/".join(parts), b"{}" if method in ("POST", "PUT") else b"")
    sound(answer)
