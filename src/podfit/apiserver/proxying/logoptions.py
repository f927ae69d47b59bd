"""Validates the options of a request for a pod's logs, before the node is contacted."""

from __future__ import annotations

from podfit.api.status import FieldError, field_forbidden, invalid, not_supported, unprocessable
from podfit.apiserver.writing.options import Query, first, integer

_STREAMS = ("All", "Stdout", "Stderr")
_WHOLE = "[]"
"""How Kubernetes prints an empty path."""
_POSITIVE = "must be greater than 0"


def check_log_options(pod: str, query: Query) -> None:
    """Raises 400 for options that cannot be parsed and 422 for invalid ones."""
    tail, limit, since = (integer(query, name) for name in ("tailLines", "limitBytes", "sinceSeconds"))
    stream, errors = first(query, "stream") or "All", list[FieldError]()
    if tail is not None and tail < 0:
        errors.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        errors.append(invalid("limitBytes", limit, _POSITIVE))
    if since is not None and first(query, "sinceTime"):
        errors.append(field_forbidden(_WHOLE, "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        errors.append(invalid("sinceSeconds", since, _POSITIVE))
    if stream not in _STREAMS:
        errors.append(not_supported("stream", stream, _STREAMS))
    elif stream != "All" and tail is not None:
        errors.append(field_forbidden(_WHOLE, "`tailLines` and specific `stream` are mutually exclusive for now"))
    if errors:
        raise unprocessable("PodLogOptions", pod, errors)
