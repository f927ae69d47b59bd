"""Status writes: only what changed, and rejected fields are left out for a while."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.agent.lab import Lab

from podfit.client.transport import ClientRequest, Reply


async def test_a_status_that_says_nothing_new_is_not_written(lab: Lab) -> None:
    record, writer = lab.add(), lab.parts.reporter._writer
    assert await writer.write(record, {"phase": "Running"})
    assert not await writer.write(record, {"phase": "Running"})
    assert lab.api.statuses == [{"phase": "Running"}]


async def test_a_rejected_field_is_not_sent_again_before_its_pause_is_over(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, writer, sent = lab.add(), lab.parts.reporter._writer, list[Any]()
    request = lab.api.request

    async def reject(ask: ClientRequest) -> Reply:
        if ask.method == "PATCH":
            sent.append(ask.body)
            return Reply(422, msgspec.json.encode({"kind": "Status", "code": 422, "message": "no"}))
        return await request(ask)

    monkeypatch.setattr(lab.api, "request", reject)
    for _ in range(2):
        await writer.write(record, {"reason": "x"})
    tries = len(sent)
    assert record.rejected_status is not None and lab.queue.later[0] == ("u", 10.0)
    await lab.clock.advance(11.0)
    await writer.write(record, {"reason": "x"})
    assert len(sent) > tries
