"""The health endpoints, and the metrics of their checks."""

from __future__ import annotations

from podfit.apiserver.apis.health import ApiHealth
from podfit.apiserver.request import ADMIN, Request


def asked(**query: str) -> Request:
    return Request("GET", "/readyz", {key: [value] for key, value in query.items()}, {}, b"", ADMIN)


def series(health: ApiHealth, start: str) -> set[str]:
    return {line for line in health.metrics.text().decode().splitlines() if line.startswith(start)}


def test_each_check_that_an_endpoint_runs_is_recorded() -> None:
    health = ApiHealth()
    health.checks = {"ping": str, "store": lambda: "full"}
    assert not series(health, "kubernetes")
    for _ in range(2):
        answer = health.answer("readyz", "", asked(exclude="poststarthook/bootstrap"))
        assert answer is not None and answer.status == 500
    assert series(health, "kubernetes_healthcheck{") == {
        'kubernetes_healthcheck{name="ping",type="readyz"} 1.0',
        'kubernetes_healthcheck{name="store",type="readyz"} 0.0',
    }
    assert series(health, "kubernetes_healthchecks_total{") == {
        'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 2.0',
        'kubernetes_healthchecks_total{name="store",status="error",type="readyz"} 2.0',
    }


def test_one_check_alone_is_answered_and_not_recorded() -> None:
    health = ApiHealth()
    answer = health.answer("livez", "ping", asked())
    assert answer is not None and answer.body == b"ok"
    assert health.answer("livez", "none", asked()) is None
    assert not series(health, "kubernetes")
