"""The types of a VerticalPodAutoscaler's JSON, with a Go decoder's messages."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.autoscalers import pod, recommended, vpa

from podfit.vpa.admission.decide.shape import POD, VPA, ShapeError, check_shape


def policies(**fields: Any) -> dict[str, Any]:
    return {"spec": {"resourcePolicy": {"containerPolicies": [fields]}}}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "cannot unmarshal number into Go value of type object"),
        ({"spec": []}, "cannot unmarshal array into Go struct field V.spec of type object"),
        ({"spec": {"updatePolicy": {"minReplicas": "2"}}}, "V.spec.updatePolicy.minReplicas of type int32"),
        ({"spec": {"updatePolicy": {"minReplicas": 2**31}}}, "number 2147483648 into Go struct field"),
        ({"spec": {"updatePolicy": {"minReplicas": True}}}, "cannot unmarshal bool into"),
        ({"spec": {"updatePolicy": {"updateMode": 1.5}}}, "cannot unmarshal number into"),
        ({"metadata": {"labels": {"a": 1}}}, "V.metadata.labels.a of type string"),
        (
            {"spec": {"recommenders": {}}},
            "cannot unmarshal object into Go struct field V.spec.recommenders of type list",
        ),
        (policies(containerName=7), "spec.resourcePolicy.containerPolicies.containerName of type string"),
        (policies(minAllowed={"cpu": True}), "cannot unmarshal bool into Go value of type resource.Quantity"),
        (policies(minAllowed={"cpu": "x"}), "quantities must match the regular expression"),
    ],
)
def test_the_first_value_of_a_wrong_type_is_named(value: Any, message: str) -> None:
    with pytest.raises(ShapeError) as raised:
        check_shape(value, VPA, "V")
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "value",
    [None, {}, vpa(recommended()), {"unknown": 7, "spec": None}, policies(minAllowed={"cpu": 1, "memory": "1Gi"})],
)
def test_well_typed_values_and_unknown_fields_pass(value: Any) -> None:
    check_shape(value, VPA, "V")


def test_pods_are_checked_for_what_is_read_of_them() -> None:
    check_shape(pod(), POD, "Pod")
    with pytest.raises(ShapeError, match=r"Pod\.spec\.containers\.name of type string"):
        check_shape({"spec": {"containers": [{"name": 7}]}}, POD, "Pod")
