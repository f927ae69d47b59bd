"""Statuses are written in the parts that the server accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from podfit.agent.status.partial_writes import WriteOutcome, write_status
from podfit.api.status import ApiError


def error(code: int) -> ApiError:
    return ApiError(code, "Invalid", "no")


async def written(
    change: dict[str, Any], bad: Callable[[Any], bool], before: Any = None
) -> tuple[WriteOutcome, list[Any]]:
    accepted: list[Any] = []

    async def send(part: dict[str, Any]) -> dict[str, Any]:
        if bad(part):
            raise error(422)
        accepted.append(part)
        return part

    return await write_status(send, before or {}, change), accepted


async def test_an_accepted_status_is_one_write() -> None:
    outcome, accepted = await written({"phase": "Running", "podIP": "1"}, lambda part: False)
    assert accepted == [{"phase": "Running", "podIP": "1"}] and outcome.rejections == {}


async def test_a_rejected_field_does_not_hold_up_the_others() -> None:
    outcome, accepted = await written(
        {"phase": "Running", "reason": "bad", "qosClass": "x"}, lambda part: "reason" in part
    )
    assert accepted == [{"qosClass": "x"}, {"phase": "Running"}], "the phase last"
    assert list(outcome.rejections) == ["reason"]


async def test_valid_elements_of_a_partly_rejected_list_are_written() -> None:
    statuses = [{"name": "a"}, {"name": "b", "bad": 1}, {"name": "c"}]
    outcome, accepted = await written(
        {"containerStatuses": statuses, "phase": "Running"},
        lambda part: any("bad" in status for status in part.get("containerStatuses", ())),
    )
    assert accepted[-2:] == [{"containerStatuses": [{"name": "a"}, {"name": "c"}]}, {"phase": "Running"}]
    assert list(outcome.rejections) == ["containerStatuses.b"]


async def test_addresses_are_written_together() -> None:
    _, accepted = await written({"podIP": "1", "podIPs": [{"ip": "1"}], "reason": "bad"}, lambda part: "reason" in part)
    assert accepted == [{"podIP": "1", "podIPs": [{"ip": "1"}]}]


@pytest.mark.parametrize("code", [404, 409, 500])
async def test_what_another_try_may_change_is_raised(code: int) -> None:
    async def send(part: dict[str, Any]) -> dict[str, Any]:
        raise error(code)

    with pytest.raises(ApiError):
        await write_status(send, {}, {"phase": "Running", "reason": "x"})
