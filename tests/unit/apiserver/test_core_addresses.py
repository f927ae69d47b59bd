"""Families and addresses that a new Service gets, and the words for those it cannot have."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.status import ApiError
from podfit.apiserver.services.addresses import ServiceAddresses

_NO_DUAL = (
    'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'
)


def allotted(**spec: Any) -> dict[str, Any]:
    service: dict[str, Any] = {"metadata": {"name": "s"}, "spec": spec}
    ServiceAddresses("10.96.0.0/24").allot(service)
    result: dict[str, Any] = service["spec"]
    return result


@pytest.mark.parametrize(
    ("spec", "policy", "families"),
    [
        ({}, "SingleStack", ["IPv4"]),
        ({"ipFamilyPolicy": "PreferDualStack"}, "PreferDualStack", ["IPv4"]),
        ({"clusterIP": "None", "selector": {"a": "b"}}, "SingleStack", ["IPv4"]),
        ({"clusterIP": "None"}, "RequireDualStack", ["IPv4", "IPv6"]),
        ({"clusterIP": "None", "ipFamilies": ["IPv6"]}, "RequireDualStack", ["IPv6", "IPv4"]),
        ({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}, "SingleStack", ["IPv4"]),
    ],
)
def test_a_service_gets_the_family_of_the_cluster_unless_it_is_an_empty_name(
    spec: dict[str, Any], policy: str, families: list[str]
) -> None:
    got = allotted(**spec)
    assert (got["ipFamilyPolicy"], got["ipFamilies"]) == (policy, families)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"ipFamilies": ["IPv6"]}, 'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'),
        ({"ipFamilyPolicy": "RequireDualStack"}, _NO_DUAL),
        (
            {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]},
            f'[{_NO_DUAL}, spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster]',
        ),
        (
            {"ipFamilies": ["IPv4", "IPv6"]},
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' "
            "when multiple IP families are specified",
        ),
    ],
)
def test_families_the_cluster_does_not_have_are_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ApiError) as refused:
        allotted(**spec)
    assert refused.value.code == 422
    assert refused.value.message == f'Service "s" is invalid: {words}'
