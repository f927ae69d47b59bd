"""The form of responses: token reviews, indentation for people, tables of scales, warnings beside errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.whole import workload

from podfit.apiserver.app import ApiServer
from podfit.apiserver.config import Config
from podfit.apiserver.request import ADMIN, Request, Response
from podfit.store.memory import MemoryStore

ISSUER = "https://kubernetes.default.svc.cluster.local"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Asker:
    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def raw(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        data = b"" if body is None else json.dumps(body).encode()
        path, _, asked = path.partition("?")
        query = {key: [value] for key, _, value in (part.partition("=") for part in asked.split("&") if part)}
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        return await self.server.handle(
            Request(method, path, query, {"content-type": "application/json", **given}, data, ADMIN)
        )

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        answer = await self.raw(method, path, body, **headers)
        return answer.status, json.loads(answer.body)

    async def token(self, *audiences: str) -> str:
        _, made = await self("POST", f"{ACCOUNTS}/robot/token", {"spec": {"audiences": list(audiences)}})
        return str(made["status"]["token"])

    async def review(self, token: str, *audiences: str) -> Any:
        spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
        code, reported = await self("POST", REVIEWS, {"spec": spec})
        assert code == 201, reported
        return reported["status"]


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    server = ApiServer(Config(MemoryStore(), tmp_path))
    await server.start()
    asker = Asker(server)
    await asker("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
    yield asker
    await server.stop()


async def test_a_token_review_names_the_audiences_that_match(ask: Asker) -> None:
    status = await ask.review(await ask.token("x", "z"), "x", "y")
    assert (status["authenticated"], status["audiences"]) == (True, ["x"])
    assert status["user"]["username"] == "system:serviceaccount:default:robot"
    assert (await ask.review(await ask.token()))["audiences"] == [ISSUER]


async def test_a_token_review_reports_the_reason_a_token_is_invalid(ask: Asker) -> None:
    assert await ask.review("nonsense") == {"user": {}, "error": "invalid bearer token"}
    status = await ask.review(await ask.token("x"))
    why = f'token audiences ["x"] is invalid for the target audiences ["{ISSUER}"]'
    assert status == {"user": {}, "error": f"[invalid bearer token, {why}]"}
    token = await ask.token()
    await ask("DELETE", f"{ACCOUNTS}/robot")
    status = await ask.review(token)
    assert status["error"] == "[invalid bearer token, service account token has been invalidated]"


async def test_a_review_without_a_token_is_a_bad_request(ask: Asker) -> None:
    code, reported = await ask("POST", REVIEWS, {"spec": {}})
    assert (code, reported["message"]) == (400, "token is required for TokenReview in authentication")


async def test_people_get_their_answers_indented(ask: Asker) -> None:
    path = "/api/v1/namespaces/default"
    assert b'\n  "kind"' in (await ask.raw("GET", f"{path}?pretty=true")).body
    assert b'\n  "kind"' in (await ask.raw("GET", path, user_agent="curl/8.0")).body
    assert b"\n  " not in (await ask.raw("GET", f"{path}?pretty=false", user_agent="curl/8.0")).body
    assert b"\n  " not in (await ask.raw("GET", path, user_agent="kubectl/v1.36")).body


async def test_a_scale_is_shown_as_a_table(ask: Asker) -> None:
    await ask("POST", "/apis/apps/v1/namespaces/default/deployments", workload("Deployment", "web", 3))
    _, table = await ask("GET", "/apis/apps/v1/namespaces/default/deployments/web/scale", accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["web", 3, 0]


async def test_refusals_warn_of_unknown_fields_too(ask: Asker) -> None:
    body = {"metadata": {"name": "Bad Name"}, "nope": 1}
    answer = await ask.raw("POST", "/api/v1/namespaces/default/configmaps", body)
    assert answer.status == 422
    assert ("Warning", '299 - "unknown field \\"nope\\""') in answer.headers


async def test_endpoints_are_deprecated(ask: Asker) -> None:
    answer = await ask.raw("GET", "/api/v1/endpoints")
    reported = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    assert answer.headers == [("Warning", f'299 - "{reported}"')]


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
            422,
            "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("stream=Noise", 422, 'stream: Unsupported value: "Noise": supported values: "All", "Stdout", "Stderr"'),
    ],
)
async def test_log_options_are_checked_before_anything_is_read(ask: Asker, query: str, code: int, message: str) -> None:
    status, reported = await ask("GET", f"/api/v1/namespaces/default/pods/p/log?{query}")
    prefix = 'PodLogOptions "p" is invalid: ' if code == 422 else ""
    assert (status, reported["message"]) == (code, prefix + message)


async def test_the_body_of_a_request_to_an_unknown_path_is_not_read(ask: Asker) -> None:
    path = "/apis/extensions.k8s.io/v1/namespaces/default/nothing"
    answer = await ask.raw("POST", path, {}, content_type="application/vnd.kubernetes.protobuf")
    assert (answer.status, answer.body) == (404, b"404 page not found\n")


async def test_metrics_of_autoscalers_are_checked(ask: Asker) -> None:
    metrics = [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "X"}}},
        {"type": "Pods", "pods": {"metric": {}, "target": {"type": "AverageValue", "averageValue": "0"}}},
        {"type": "Moon"},
    ]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 2, "scaleTargetRef": target, "metrics": metrics}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    code, reported = await ask("POST", path, {"metadata": {"name": "h"}, "spec": spec})
    assert code == 422
    assert [cause["field"] for cause in reported["details"]["causes"]] == [
        "spec.metrics[0].resource.target.type",
        "spec.metrics[0].resource.target.averageUtilization",
        "spec.metrics[1].pods.metric.name",
        "spec.metrics[1].pods.target.averageValue",
        "spec.metrics[2].type",
        "spec.metrics[2].type",
    ]


async def test_clients_that_have_the_aggregated_discovery_are_not_sent_it_again(ask: Asker) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    first = await ask.raw("GET", "/apis", accept=accept)
    tag = dict(first.headers)["Etag"]
    again = await ask.raw("GET", "/apis", accept=accept, if_none_match=tag)
    assert (first.status, again.status, again.body) == (200, 304, b"")
    assert again.content_type == first.content_type, "caches overwrite what they have with it"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", 'time: invalid duration "soon"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5s", ""),
        ("1m30s", ""),
        ("0", ""),
    ],
)
async def test_a_timeout_has_to_be_a_time(ask: Asker, text: str, why: str) -> None:
    code, reported = await ask("GET", f"/api/v1/namespaces/default?timeout={text}")
    if why:
        assert (code, reported["message"]) == (400, f"invalid timeout specified in the request URL - {why}")
    else:
        assert code == 200
