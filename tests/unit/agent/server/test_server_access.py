"""Authorization of requests to a node's server."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.server.access import Gate, caller_of, subresources
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.kit.clock import FakeClock
from podfit.kit.web.routes import Refusal, words_of

MASTER = {"subject": ((("organizationName", "system:masters"),), (("commonName", "kube-apiserver"),))}
USER = {"subject": ((("commonName", "jane"),),)}


class Reviews:
    """An API server that only answers reviews."""

    def __init__(self, allowed: set[tuple[str, str, str]]) -> None:
        self.allowed, self.asked = allowed, 0
        self.away = False

    async def create(self, kind: Any, body: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        if self.away:
            raise ApiError(503, "ServiceUnavailable", "away")
        spec = body["spec"]
        if kind.kind == "TokenReview":
            good = spec["token"] == "good"
            return {"status": {"authenticated": good, "user": {"username": "bot", "groups": ["g"]} if good else {}}}
        about = spec["resourceAttributes"]
        assert (about["resource"], about["name"]) == ("nodes", "n1")
        return {"status": {"allowed": (spec["user"], about["verb"], about["subresource"]) in self.allowed}}


class World:
    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self.reviews, self.clock = Reviews(set(allowed)), FakeClock()
        client: Client = self.reviews  # type: ignore[assignment]
        self.gate = Gate(client, "n1", self.clock)

    async def refusal(self, certificate: Any = None, token: str = "", method: str = "GET", path: str = "/pods") -> int:
        """The status code of the refusal; 0 if the request is allowed."""
        try:
            await self.gate.check(certificate, f"Bearer {token}" if token else "", method, words_of(path)[0])
        except Refusal as refusal:
            return refusal.code
        return 0


async def test_the_api_servers_certificate_opens_everything_without_a_question() -> None:
    world = World()
    assert await world.refusal(MASTER, path="/exec/ns/pod/c", method="POST") == 0
    assert world.reviews.asked == 0


async def test_an_unauthenticated_request_gets_401() -> None:
    world = World()
    assert await world.refusal() == 401
    assert await world.refusal(token="bad") == 401


async def test_a_certificate_without_rights_is_refused_with_403() -> None:
    assert await World().refusal(USER) == 403


@pytest.mark.parametrize("right", ["proxy", "pods"])
async def test_either_the_narrow_right_or_the_proxys_opens_a_path(right: str) -> None:
    assert await World(("jane", "get", right)).refusal(USER) == 0


@pytest.mark.parametrize(
    "path", ["/run/ns/p/c", "/exec/ns/p/c", "/attach/ns/p/c", "/portForward/ns/p", "/%65xec/n/p/c"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_commands_need_the_right_to_create(path: str, method: str) -> None:
    assert await World(("bot", "get", "proxy")).refusal(token="good", path=path, method=method) == 403
    assert await World(("bot", "create", "proxy")).refusal(token="good", path=path, method=method) == 0


async def test_verdicts_are_kept_for_a_while_and_then_requested_again() -> None:
    world = World(("bot", "get", "stats"))
    for _ in range(5):
        assert await world.refusal(token="good", path="/stats/summary") == 0
    assert world.reviews.asked == 2
    world.reviews.allowed.clear()
    await world.clock.advance(301)
    assert await world.refusal(token="good", path="/stats/summary") == 403


async def test_an_unreachable_authorizer_denies_requests_and_nothing_is_cached() -> None:
    world = World(("bot", "get", "proxy"))
    world.reviews.away = True
    assert await world.refusal(token="good", path="/configz") == 500
    world.reviews.away = False
    assert await world.refusal(token="good", path="/configz") == 0


def test_a_certificate_without_a_name_authenticates_no_user() -> None:
    assert caller_of({"subject": ((("organizationName", "system:masters"),),)}) is None
    assert caller_of({}) is None


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/metrics/cadvisor", ("metrics", "proxy")),
        ("/stats/summary", ("stats", "proxy")),
        ("/containerLogs/a/b/c", ("proxy",)),
        ("/exec/a/b/c", ("proxy",)),
        ("/configz", ("configz", "proxy")),
    ],
)
def test_paths_have_the_kubelets_names(path: str, names: tuple[str, ...]) -> None:
    assert subresources(words_of(path)[0]) == names
