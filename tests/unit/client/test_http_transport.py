"""The HTTPS transport when files on the machine itself are missing or unreadable."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.client.transport import ClientRequest, HttpTransport, Unreachable


async def test_a_token_that_cannot_be_read_is_a_reason_to_try_again_later(tmp_path: Path) -> None:
    """A long-lived watch must not end because a mounted token was missing for a moment."""
    transport = HttpTransport("http://127.0.0.1:1", token_file=str(tmp_path / "token"))
    try:
        with pytest.raises(Unreachable, match="No such file"):
            await transport.request(ClientRequest("GET", "/api"))
        with pytest.raises(Unreachable, match="No such file"):
            async with transport.stream(ClientRequest("GET", "/api")):
                pass
    finally:
        await transport.close()
