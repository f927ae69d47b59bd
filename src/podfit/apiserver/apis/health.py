"""The health checks at /healthz, /livez and /readyz, and their results as metrics at /metrics/slis."""

from __future__ import annotations

import logging
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest

from podfit.api.status import go_quote
from podfit.apiserver.request import Request, Response
from podfit.kit.series import Counter, Gauge

log = logging.getLogger(__name__)
ENDPOINTS = ("healthz", "livez", "readyz")
_BOOTSTRAP = "poststarthook/bootstrap"
_TEXT = "text/plain; charset=utf-8"


class HealthMetrics:
    """The last result of each check, and how often it had which one. A check is recorded when an endpoint is read."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._last = Gauge(
            "kubernetes_healthcheck", "1 if the check passed.", ("name", "type"), registry=self.registry
        ).may_have(type=ENDPOINTS)
        self._results = Counter(
            "kubernetes_healthchecks", "Results of checks.", ("name", "type", "status"), registry=self.registry
        ).may_have(type=ENDPOINTS, status=("error", "success"))

    def record(self, check: str, endpoint: str, problem: str) -> None:
        self._last.labels(check, endpoint).set(0 if problem else 1)
        self._results.labels(check, endpoint, "error" if problem else "success").inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)


class ApiHealth:
    def __init__(self) -> None:
        self.ready = False
        self.metrics = HealthMetrics()
        self.checks: dict[str, Callable[[], str]] = {"ping": _passed, "log": _passed, "store": _passed}
        """Health checks by name: each returns why a component does not work, or "" if it does."""

    def paths(self, endpoint: str) -> list[str]:
        return [f"/{endpoint}", *(f"/{endpoint}/{check}" for check in (*self.checks, _BOOTSTRAP))]

    def answer(self, endpoint: str, check: str, request: Request) -> Response | None:
        """The result of all checks, or of one; None if there is no such check."""
        problems = self._problems(endpoint)
        if check:
            if check not in problems:
                return None
            problem = problems[check]
            return Response(500, f"internal server error: {problem}\n".encode(), _TEXT) if problem else _ok()
        excluded = set(request.query.get("exclude", ()))
        lines = [_line(name, problem, name in excluded) for name, problem in problems.items()]
        counted = {name: problem for name, problem in problems.items() if name not in excluded}
        failed = [name for name, problem in counted.items() if problem]
        for name, problem in counted.items():
            self.metrics.record(name, endpoint, problem)
        for name in failed:
            log.warning("%s check %s failed: %s", endpoint, name, problems[name])
        if unknown := sorted(excluded - problems.keys()):
            names = ", ".join(map(go_quote, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed:
            return Response(500, ("\n".join([*lines, f"{endpoint} check failed"]) + "\n").encode(), _TEXT)
        if "verbose" not in request.query:
            return _ok()
        return Response(200, ("\n".join([*lines, f"{endpoint} check passed"]) + "\n").encode(), _TEXT)

    def _problems(self, endpoint: str) -> dict[str, str]:
        problems = {check: problem() for check, problem in self.checks.items()}
        if endpoint == "livez":
            # A full disk does not fail liveness: a restart does not free disk space.
            problems["store"] = ""
        problems[_BOOTSTRAP] = "" if self.ready or endpoint == "livez" else "not finished"
        return problems


def _ok() -> Response:
    return Response(200, b"ok", _TEXT)


def _passed() -> str:
    return ""


def _line(check: str, problem: str, excluded: bool) -> str:
    """A health check as Kubernetes lists it; the reason of a failure is only logged."""
    if excluded:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: reason withheld" if problem else f"[+]{check} ok"
