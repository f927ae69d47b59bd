"""Parses revisions, waits for them, and makes the errors for future and compacted ones."""

from __future__ import annotations

from podfit.api.status import ApiError, go_quote
from podfit.store.backend import Store

TIMEOUT_S = 3.0


def unsigned(text: str) -> tuple[int, str]:
    """The number and nothing, or zero and Go's error: revisions are unsigned 64-bit numbers."""
    if not text.isascii() or not text.isdecimal():
        return 0, f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax"
    if len(text.lstrip("0")) > 20 or int(text) >= 1 << 64:
        return 0, f"strconv.ParseUint: parsing {go_quote(text)}: value out of range"
    return int(text), ""


def parse_revision(text: str) -> int:
    """A revision to read at; Kubernetes treats an invalid one as an internal error."""
    number, complaint = unsigned(text)
    if complaint:
        raise ApiError(500, "", f"resourceVersion: Invalid value: {go_quote(text)}: {complaint}")
    return number


async def wait_until(store: Store, revision: int) -> None:
    """Waits until the view has `revision`; 504 on timeout."""
    if store.revision >= revision:
        return
    if not await store.wait_for(revision, TIMEOUT_S):
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
