"""Tokens of service accounts: requested once, renewed in time; a missing account is created."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.status import ApiError, not_found
from podfit.client.accounts import AccountToken
from podfit.kit.clock import FakeClock, rfc3339


class Asker:
    """An API server's responses to the requests of an AccountToken."""

    def __init__(self, clock: FakeClock, lifetime_s: float = 3600.0, exists: bool = True) -> None:
        self._clock, self._lifetime_s, self._exists = clock, lifetime_s, exists
        self.tokens, self.created = 0, list[str]()

    async def create(self, kind: Kind, body: Object, *where: Any) -> Object:
        if body["kind"] == "ServiceAccount":
            self._exists = True
            self.created.append(body["metadata"]["name"])
            return body
        if not self._exists:
            raise not_found(kind.plural, where[1])
        self.tokens += 1
        ends = rfc3339(self._clock.now() + self._lifetime_s)
        return {"status": {"token": f"t{self.tokens}", "expirationTimestamp": ends}}


def token_of(asker: Asker, clock: FakeClock) -> AccountToken:
    return AccountToken(asker, "job-controller", clock)  # type: ignore[arg-type]


async def test_a_token_is_used_until_most_of_its_lifetime_is_over() -> None:
    clock = FakeClock(1_800_000_000.0)
    asker = Asker(clock)
    token = token_of(asker, clock)
    assert [await token.current(), await token.current()] == ["t1", "t1"]
    await clock.advance(0.79 * 3600)
    assert await token.current() == "t1"
    await clock.advance(0.02 * 3600)
    assert await token.current() == "t2"


async def test_a_token_that_the_server_shortened_is_renewed_earlier() -> None:
    clock = FakeClock(1_800_000_000.0)
    token = token_of(Asker(clock, lifetime_s=600.0), clock)
    assert await token.current() == "t1"
    await clock.advance(481.0)
    assert await token.current() == "t2"


async def test_a_missing_account_is_created() -> None:
    clock = FakeClock(1_800_000_000.0)
    asker = Asker(clock, exists=False)
    assert await token_of(asker, clock).current() == "t1"
    assert asker.created == ["job-controller"]


async def test_a_refused_token_is_not_used_again_but_a_newer_one_is() -> None:
    clock = FakeClock(1_800_000_000.0)
    token = token_of(Asker(clock), clock)
    first = await token.current()
    token.refused(first)
    second = await token.current()
    token.refused(first)
    assert (first, second, await token.current()) == ("t1", "t2", "t2")


async def test_a_refusal_other_than_not_found_is_raised() -> None:
    clock = FakeClock(1_800_000_000.0)

    class Refusing(Asker):
        async def create(self, kind: Kind, body: Object, *where: Any) -> Object:
            raise ApiError(403, "Forbidden", "no")

    with pytest.raises(ApiError):
        await token_of(Refusing(clock), clock).current()
