"""Services and namespaces: which fields an update keeps, drops or may not change, and the error messages."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from podfit.api.registry.kinds import kind_named
from podfit.apiserver.strategy import strategy_for

PORTS = [{"port": 80}]
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
STORED = {
    "type": "ClusterIP",
    "clusterIP": "10.0.0.7",
    "clusterIPs": ["10.0.0.7"],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
    "ports": PORTS,
}


def service(**spec: Any) -> dict[str, Any]:
    obj = {"metadata": {"name": "s", "namespace": "d", "uid": "u", "resourceVersion": "1"}, "spec": spec}
    obj = copy.deepcopy(obj)
    strategy_for(kind_named("Service")).default(obj)
    return obj


def refusals(**spec: Any) -> list[str]:
    strategy, obj = strategy_for(kind_named("Service")), service(ports=PORTS, **spec)
    strategy.prepare_create(obj)
    return [str(each) for each in strategy.validate_create(obj)]


def updated(stored: dict[str, Any], **changes: Any) -> tuple[dict[str, Any], list[str]]:
    strategy, old, new = strategy_for(kind_named("Service")), service(**stored), service(**{**stored, **changes})
    strategy.prepare_update(new, old)
    return new["spec"], [str(each) for each in strategy.validate_update(new, old)]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"ipFamilies": ["IPv5"]}, 'spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"'),
        ({"ipFamilies": ["IPv4", "IPv4"]}, 'spec.ipFamilies[1]: Duplicate value: "IPv4"'),
        (
            {"ipFamilyPolicy": "Both"},
            'spec.ipFamilyPolicy: Unsupported value: "Both": supported values: "PreferDualStack", "RequireDualStack", '
            '"SingleStack"',
        ),
        (
            {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]},
            'spec.clusterIPs: Invalid value: ["10.0.0.2"]: first value must match `clusterIP`',
        ),
        (
            {"loadBalancerSourceRanges": ["10.0.0.0/8"]},
            f"spec.LoadBalancerSourceRanges: Forbidden: {_BALANCER_ONLY}",
        ),
        ({"loadBalancerClass": "a/b"}, f"spec.loadBalancerClass: Forbidden: {_BALANCER_ONLY}"),
        (
            {"healthCheckNodePort": 30000},
            "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and "
            "`externalTrafficPolicy` is 'Local'",
        ),
    ],
)
def test_refusals(spec: dict[str, Any], words: str) -> None:
    assert refusals(**spec) == [words]


def test_an_update_without_addresses_keeps_them() -> None:
    spec, errors = updated(STORED, clusterIP="", clusterIPs=[])
    assert (spec["clusterIP"], spec["clusterIPs"], errors) == ("10.0.0.7", ["10.0.0.7"], [])


def test_the_address_may_not_change_by_either_field() -> None:
    refused = 'spec.clusterIPs[0]: Invalid value: ["10.0.0.8"]: may not change once set'
    assert updated(STORED, clusterIP="10.0.0.8")[1] == [refused]
    both = 'spec.clusterIPs: Invalid value: ["10.0.0.8"]: first value must match `clusterIP`'
    assert updated(STORED, clusterIP="", clusterIPs=["10.0.0.8"])[1] == [refused, both]


def test_a_service_that_becomes_a_name_loses_its_addresses() -> None:
    spec, errors = updated(STORED, type="ExternalName", externalName="a.b")
    assert not errors
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & set(spec)


def test_a_balancer_that_becomes_internal_loses_what_only_balancers_have() -> None:
    ports = [{"port": 80, "nodePort": 30001}]
    stored = {**STORED, "type": "LoadBalancer", "ports": ports, "loadBalancerClass": "a/b"}
    stored = service(**stored)["spec"]
    spec, errors = updated(stored, type="ClusterIP")
    assert not errors
    assert not {"allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy"} & set(spec)
    assert "nodePort" not in spec["ports"][0]


def test_finalizers_of_a_namespace_are_named_by_place_when_finalizing() -> None:
    strategy = strategy_for(kind_named("Namespace"))
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1"}
    old = {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    new = {**old, "spec": {"finalizers": ["kubernetes", "x"]}}
    detail = 'Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified'
    assert [str(each) for each in strategy.validate_update(new, old, "finalize")] == [f"spec.finalizers[1]: {detail}"]
    assert [str(each) for each in strategy.validate_create(new)] == [f"spec.finalizers: {detail}"]


def test_names_of_endpoints_are_labels() -> None:
    address = {"ip": "10.0.0.1", "hostname": "A_", "nodeName": "N_"}
    ports = [{"port": 1, "name": "P_", "appProtocol": "a/b/c"}]
    obj = {"metadata": {"name": "e", "namespace": "d"}, "subsets": [{"addresses": [address], "ports": ports}]}
    strategy = strategy_for(kind_named("Endpoints"))
    strategy.default(obj)
    assert [each.path for each in strategy.validate_create(obj)] == [
        "subsets[0].addresses[0].hostname",
        "subsets[0].addresses[0].nodeName",
        "subsets[0].ports[0].name",
        "subsets[0].ports[0].appProtocol",
    ]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            {"externalIPs": ["2001:DB8::1"]},
            [
                'spec.externalIPs[0]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format '
                '("2001:db8::1")',
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            ],
        ),
        (
            {"clusterIP": "None", "externalIPs": ["192.0.2.1"], "loadBalancerIP": "x", "sessionAffinity": "ClientIP"},
            [
                "spec.loadBalancerIP is ignored for headless services",
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ],
        ),
        (
            {"type": "ExternalName", "externalIPs": ["192.0.2.1"]},
            ['spec.externalIPs is ignored when spec.type is "ExternalName"'],
        ),
        (
            {"type": "LoadBalancer", "loadBalancerIP": "1.2.3.04"},
            ['spec.loadBalancerIP: non-standard IP address "1.2.3.04" is invalid: use "1.2.3.4"'],
        ),
        (
            {"trafficDistribution": "PreferClose"},
            ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'],
        ),
        ({"trafficDistribution": "PreferSameNode"}, []),
    ],
)
def test_ineffective_and_deprecated_fields_cause_warnings(spec: dict[str, Any], wanted: list[str]) -> None:
    strategy, obj = strategy_for(kind_named("Service")), service(**spec)
    assert strategy.warnings_create(obj) == wanted
    assert strategy.warnings_update(obj, service(ports=PORTS)) == wanted
    assert strategy.warnings_update(obj, service(ports=PORTS), "status") == []


_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_TOPOLOGY = "service.kubernetes.io/topology-"


def annotated(annotations: dict[str, str], **spec: Any) -> list[str]:
    strategy, obj = strategy_for(kind_named("Service")), service(ports=PORTS, **spec)
    obj["metadata"]["annotations"] = annotations
    strategy.prepare_create(obj)
    return [str(each) for each in strategy.validate_create(obj)]


def test_annotations_that_preceded_fields_are_validated() -> None:
    assert annotated({_RANGES: "10.0.0.0/8, 1.2.3.0/24"}, type="LoadBalancer") == []
    assert annotated({_RANGES: "10.0.0.0/8"}) == [f"metadata.annotations[{_RANGES}]: Forbidden: {_BALANCER_ONLY}"]
    assert annotated({_RANGES: "010.0.0.0/8"}, type="LoadBalancer") == [
        f'metadata.annotations[{_RANGES}]: Invalid value: "010.0.0.0/8": must not have leading 0s in IP or '
        "prefix length"
    ]
    assert annotated({f"{_TOPOLOGY}mode": "Auto", f"{_TOPOLOGY}aware-hints": "auto"}) == [
        f'metadata.annotations[{_TOPOLOGY}mode]: Invalid value: "Auto": must match annotations[{_TOPOLOGY}aware-hints] '
        "when both are specified"
    ]


def test_the_port_for_health_checks_is_a_port() -> None:
    balancer = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": -1}
    assert refusals(**balancer) == [
        "spec.healthCheckNodePort: Invalid value: -1: must be between 1 and 65535, inclusive"
    ]
