"""Errors of a server in a form that Kubernetes does not define."""

from __future__ import annotations

import pytest

from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, Reply


class Unwell:
    async def request(self, ask: ClientRequest) -> Reply:
        return Reply(500, b"[+]ping ok\n[-]etcd failed: reason withheld\n")


async def test_a_failed_health_check_is_an_error_with_its_text() -> None:
    with pytest.raises(ApiError, match="etcd failed") as refusal:
        await Client(Unwell()).raw("GET", "/readyz")  # type: ignore[arg-type]
    assert refusal.value.code == 500
