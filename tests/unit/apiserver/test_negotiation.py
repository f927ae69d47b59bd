"""The media types of a response, and the error for a client that accepts none of them."""

from __future__ import annotations

import pytest

from podfit.api.status import ApiError
from podfit.apiserver.representation.negotiate import JSON, negotiate, negotiate_built_in, negotiate_list


def test_a_pattern_of_types_is_not_known_to_the_router_of_built_in_kinds() -> None:
    assert negotiate("application/*").media == negotiate_built_in("*/*").media == JSON
    assert negotiate_built_in("application/*, application/json").media == JSON
    with pytest.raises(ApiError, match="406: Not Acceptable"):
        negotiate_built_in("application/*")


def test_the_refusal_of_a_list_names_the_types_of_watches_too() -> None:
    with pytest.raises(ApiError) as single:
        negotiate_built_in("text/plain")
    with pytest.raises(ApiError) as listing:
        negotiate_list("text/plain")
    watches = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    assert listing.value.message == single.value.message + watches
