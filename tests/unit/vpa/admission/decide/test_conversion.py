"""The response to a ConversionReview."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.autoscalers import vpa

from podfit.api.registry.vpa_versions import V1, V1ALPHA1
from podfit.vpa.admission.decide.conversion import converted


def response(wanted: Any, *objects: Any) -> Any:
    answer = converted({"request": {"uid": "u", "desiredAPIVersion": wanted, "objects": list(objects)}})
    assert answer["kind"] == "ConversionReview" and answer["response"]["uid"] == "u"
    return answer["response"]


def test_objects_come_back_in_the_version_that_was_requested() -> None:
    given = {"apiVersion": V1, "kind": "VerticalPodAutoscaler", **vpa(mode="Recreate")}
    answer = response(V1ALPHA1, given)
    assert answer["result"] == {"status": "Success"}
    [made] = answer["convertedObjects"]
    assert made["apiVersion"] == V1ALPHA1 and made["spec"]["updatePolicy"] == {"mode": "Recreate"}
    assert response(V1, made)["convertedObjects"] == [given]


@pytest.mark.parametrize(("wanted", "one"), [("x/v9", {"apiVersion": V1}), (V1, {"apiVersion": "x/v9"}), (V1, 7)])
def test_a_failing_conversion_converts_nothing(wanted: str, one: Any) -> None:
    answer = response(wanted, one)
    assert answer["result"]["status"] == "Failure" and answer["convertedObjects"] == []


@pytest.mark.parametrize("review", [None, 7, {}, {"request": []}])
def test_an_invalid_review_response_is_a_failure(review: Any) -> None:
    answer = converted(review)["response"]
    assert answer["result"]["message"].startswith("not a ConversionReview: ")
