"""The remains of a terminated pod are removed, then its object is released."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.agent.lab import Lab

from podfit.agent.pods import termination
from podfit.api.status import ApiError
from podfit.client.transport import ClientRequest, Reply


async def test_a_pod_that_the_api_still_has_is_deleted_there_after_its_removal_here(lab: Lab) -> None:
    record = await lab.run()
    await lab.parts.finalizer.finalize(record)
    assert await lab.runtime.pods() == [] and lab.ledger.allocated("u") is None
    assert lab.api.deleted == ["p-u"] and record.removed
    assert "u" in lab.records, "until the watch says that it is gone"


async def test_a_pod_that_is_gone_is_forgotten(lab: Lab) -> None:
    record = await lab.run()
    termination.gone(record)
    await lab.parts.finalizer.finalize(record)
    assert lab.records == {} and lab.api.deleted == []


@pytest.mark.parametrize(("code", "raised"), [(404, False), (409, False), (500, True)])
async def test_an_object_that_was_deleted_already_is_not_an_error(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, code: int, raised: bool
) -> None:
    record = await lab.run()

    async def answer(ask: ClientRequest) -> Reply:
        return Reply(code, msgspec.json.encode({"kind": "Status", "code": code, "message": "x"}))

    monkeypatch.setattr(lab.api, "request", answer)
    if raised:
        with pytest.raises(ApiError):
            await lab.parts.finalizer.finalize(record)
    else:
        await lab.parts.finalizer.finalize(record)
    assert record.removed
