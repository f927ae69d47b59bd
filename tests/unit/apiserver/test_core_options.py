"""Options of a request are rejected with Kubernetes' messages if they are contradictory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.api.status import ApiError
from podfit.apiserver.verbs.list import read_token
from podfit.apiserver.writing.options import delete_options


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        (
            {"resourceVersion": True},
            "bool into Go struct field Preconditions.preconditions.resourceVersion of type string",
        ),
        ({"uid": 5}, "number into Go struct field Preconditions.preconditions.uid of type types.UID"),
    ],
)
def test_preconditions_of_a_delete_are_texts(stated: dict[str, Any], why: str) -> None:
    with pytest.raises(ApiError) as refusal:
        delete_options({}, json.dumps({"preconditions": stated}).encode())
    assert (refusal.value.code, refusal.value.message) == (400, f"json: cannot unmarshal {why}")


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("a==", "illegal base64 data at input byte 1"),
        ("!!", "illegal base64 data at input byte 0"),
        ("ab=", "illegal base64 data at input byte 2"),
        ("a", "illegal base64 data at input byte 0"),
        ("YWJj", "invalid character 'a' looking for beginning of value"),
        ("eyJ2IjoieCJ9", "server does not recognize this encoded version x"),
    ],
)
def test_an_invalid_continue_token_is_explained(token: str, why: str) -> None:
    with pytest.raises(ApiError) as refusal:
        read_token(token)
    assert refusal.value.message == f"invalid continue token: continue key is not valid: {why}"


@pytest.mark.parametrize("number", ["1.5", "1e2", "99999999999999999999"])
def test_a_grace_period_that_is_no_integer_is_quoted_as_it_was_written(number: str) -> None:
    with pytest.raises(ApiError) as caught:
        delete_options({}, f'{{"gracePeriodSeconds":{number}}}'.encode())
    where = "Go struct field DeleteOptions.gracePeriodSeconds of type int64"
    assert caught.value.message == f"json: cannot unmarshal number {number} into {where}"


def test_the_option_for_unreadable_objects_has_a_type_and_no_effect() -> None:
    name = "ignoreStoreReadErrorWithClusterBreakingPotential"
    assert delete_options({}, json.dumps({name: True}).encode()) == {}
    with pytest.raises(ApiError) as caught:
        delete_options({}, json.dumps({name: "x"}).encode())
    assert (
        caught.value.message == f"json: cannot unmarshal string into Go struct field DeleteOptions.{name} of type bool"
    )
