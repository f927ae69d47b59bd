"""IP families and addresses of a new Service, and the errors for unavailable ones."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.status import ApiError
from podfit.apiserver.services.addresses import ServiceAddresses

_NO_DUAL = (
    'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services'
)

_NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def _failed(address: str) -> str:
    return f"failed to allocate IP {address}: the provided network does not match the current range"


def allotted(**spec: Any) -> dict[str, Any]:
    service: dict[str, Any] = {"metadata": {"name": "s"}, "spec": spec}
    spec.setdefault("clusterIPs", [spec["clusterIP"]] if spec.get("clusterIP") else [])
    ServiceAddresses("10.96.0.0/24").allocate(service)
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
        ({"clusterIP": "zz"}, f'spec.clusterIPs[0]: Invalid value: "zz": {_NO_IP}'),
        ({"clusterIP": "10.96.0.0"}, f'spec.clusterIPs: Invalid value: ["10.96.0.0"]: {_failed("10.96.0.0")}'),
        (
            {"clusterIP": "fd00::1"},
            'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster',
        ),
        (
            {"clusterIP": "None", "clusterIPs": ["None", "10.96.0.9"]},
            'spec.clusterIPs: Invalid value: ["None","10.96.0.9"]: \'None\' must be the first and only value',
        ),
    ],
)
def test_families_the_cluster_does_not_have_are_refused(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(ApiError) as refused:
        allotted(**spec)
    assert refused.value.code == 422
    assert refused.value.message == f'Service "s" is invalid: {words}'


def test_a_dry_run_checks_only_whether_an_address_is_in_the_range() -> None:
    addresses = ServiceAddresses("10.96.0.0/24")
    spec = {"clusterIP": addresses.first, "clusterIPs": [addresses.first]}
    addresses.allocate({"metadata": {"name": "s"}, "spec": spec}, dry_run=True)
    with pytest.raises(ApiError) as refused:
        addresses.allocate({"spec": {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"]}}, dry_run=True)
    assert refused.value.message.endswith(
        "failed to allocate IP 1.2.3.4: the provided IP (1.2.3.4) is not in the valid range. "
        "The range of valid IPs is 10.96.0.0/24"
    )
