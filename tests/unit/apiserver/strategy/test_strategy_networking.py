"""Rules of networking, discovery and flow control kinds that the recordings do not cover."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.registry.kinds import kind_named
from podfit.apiserver.strategy import strategy_for
from podfit.apiserver.strategy.addresses import canonical_cidr, canonical_ip, strict_cidr, strict_ip


def complaints(kind: str, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    strategy = strategy_for(kind_named(kind))
    obj = {"metadata": {"name": "a", "namespace": "ns", "resourceVersion": "1"}, **obj}
    if not strategy.kind.namespaced:
        obj["metadata"].pop("namespace")
    strategy.default(obj)
    if old is None:
        return [str(error) for error in strategy.validate_create(obj)]
    stored = {"metadata": obj["metadata"], **old}
    strategy.default(stored)
    return [str(error) for error in strategy.validate_update(obj, stored)]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("nonsense", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ],
)
def test_an_address_in_an_unusual_form_is_rejected_unless_it_is_stored_already(text: str, detail: str) -> None:
    errors: list[Any] = []
    strict_ip(text, "p", errors)
    assert [error.detail for error in errors] == [detail]
    kept: list[Any] = []
    strict_ip(text, "p", kept, known=[text])
    assert bool(kept) == (text == "nonsense")


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ],
)
def test_a_range_in_an_unusual_form_is_rejected(text: str, detail: str) -> None:
    errors: list[Any] = []
    strict_cidr(text, "p", errors)
    assert [error.detail for error in errors] == [detail]


def test_names_of_addresses_have_one_spelling_only() -> None:
    errors: list[Any] = []
    canonical_ip("2001:DB8::1", "p", errors)
    canonical_cidr("2001:DB8::/64", "p", errors)
    assert [error.detail for error in errors] == [
        'must be in canonical form ("2001:db8::1")',
        'must be in canonical form ("2001:db8::/64")',
    ]


def test_a_service_range_may_gain_the_other_family_and_change_in_no_other_way() -> None:
    one, two = {"spec": {"cidrs": ["10.0.0.0/16"]}}, {"spec": {"cidrs": ["10.0.0.0/16", "fd00::/108"]}}
    assert complaints("ServiceCIDR", two, one) == []
    assert complaints("ServiceCIDR", {"spec": {"cidrs": ["10.1.0.0/16"]}}, one) == [
        'spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable'
    ]
    assert complaints("ServiceCIDR", one, two) == ['spec.cidrs: Invalid value: ["10.0.0.0/16"]: field is immutable']


def test_the_parent_of_an_address_is_shown_as_kubernetes_keeps_it() -> None:
    strategy = strategy_for(kind_named("IPAddress"))
    new, old = ({"spec": {"parentRef": {"resource": "services", "name": name}}} for name in ("b", "a"))
    assert [str(error) for error in strategy.validate_change(new, old)] == [
        'spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"","Name":"b"}: '
        "field is immutable"
    ]


def test_the_exempt_level_may_lend_and_is_fixed_otherwise() -> None:
    strategy = strategy_for(kind_named("PriorityLevelConfiguration"))
    level = {"metadata": {"name": "exempt"}, "spec": {"type": "Exempt", "exempt": {"lendablePercent": 50}}}
    assert strategy.validate_create(level) == []
    level["spec"] = {"type": "Limited"}
    assert [error.path for error in strategy.validate_create(level)] == ["spec.type", "spec.limited", "spec"]


def test_a_hand_of_queues_needs_no_more_entropy_than_a_hash_has() -> None:
    queuing = {"queues": 1024, "handSize": 7, "queueLengthLimit": 1}
    spec = {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": queuing}}}
    assert complaints("PriorityLevelConfiguration", {"spec": spec}) == [
        "spec.limited.limitResponse.queuing.handSize: Invalid value: 7: required entropy bits of deckSize 1024 and "
        "handSize 7 should not be greater than 60"
    ]


def test_an_ingress_class_keeps_its_controller() -> None:
    new, old = ({"spec": {"controller": f"a.io/{word}"}} for word in ("b", "a"))
    assert complaints("IngressClass", new, old) == ['spec.controller: Invalid value: "a.io/b": field is immutable']


def test_stored_wildcard_rules_and_ranges_stay_valid() -> None:
    rule = {"spec": {"rules": [{"host": "*.a.io", "http": {"paths": []}}]}}
    assert complaints("Ingress", rule, rule) == []
    assert complaints("Ingress", rule) != []
    block = {"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]}}
    assert complaints("NetworkPolicy", block, block) == []
    assert complaints("NetworkPolicy", block) != []
