"""Waiting for revisions, and the refusals for those that never come or are gone."""

from __future__ import annotations

from podfit.api.status import ApiError
from podfit.store.backend import Store

PATIENCE_S = 3.0


async def wait_until(store: Store, revision: int) -> None:
    """Until the view holds `revision`; 504 when it does not come."""
    if store.revision >= revision:
        return
    if not await store.wait_for(revision, PATIENCE_S):
        raise too_large(revision, store.revision)


def too_large(revision: int, current: int) -> ApiError:
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {revision}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        {"Retry-After": "1"},
    )


def too_old(revision: int, oldest: int) -> ApiError:
    return ApiError(410, "Expired", f"too old resource version: {revision} ({oldest})")
