"""Empty lists of built-in kinds are returned as by a store that keeps protobuf."""

from __future__ import annotations

from typing import Any

from podfit.api.schema import type_named
from podfit.api.schema.decoding.nulls import empty_to_null
from podfit.api.schema.golang.gonames import as_go


def test_lists_that_go_always_prints_become_null_and_others_stay() -> None:
    obj: dict[str, Any] = {"endpoints": [{"addresses": [], "hints": {"forZones": []}}], "ports": []}
    empty_to_null(obj, type_named("EndpointSlice", "discovery.k8s.io"))
    assert obj == {"endpoints": [{"addresses": None, "hints": {"forZones": []}}], "ports": None}


def test_kinds_without_such_lists_are_not_changed() -> None:
    obj: dict[str, Any] = {"data": {}}
    empty_to_null(obj, type_named("ConfigMap"))
    assert obj == {"data": {}}


def test_structs_are_shown_under_go_names_with_every_field() -> None:
    shown = as_go({"ipBlock": {"cidr": "10.0.0.0/8"}}, type_named("NetworkPolicyPeer", "networking.k8s.io"))
    assert shown == {
        "PodSelector": None,
        "NamespaceSelector": None,
        "IPBlock": {"CIDR": "10.0.0.0/8", "Except": None},
    }
    selector = {"podSelector": {"matchLabels": {"a": "b"}}}
    peer = as_go(selector, type_named("NetworkPolicyPeer", "networking.k8s.io"))
    assert peer["PodSelector"] == {"matchLabels": {"a": "b"}}


def test_names_that_differ_by_struct_and_embedded_metadata_are_shown_as_in_go() -> None:
    subject = as_go({"kind": "Group"}, type_named("Subject", "flowcontrol.apiserver.k8s.io"))
    assert subject == {"Kind": "Group", "User": None, "Group": None, "ServiceAccount": None}
    template = as_go({"metadata": {"labels": {"a": "b"}}}, type_named("ResourceClaimTemplateSpec", "resource.k8s.io"))
    assert template["labels"] == {"a": "b"} and "ObjectMeta" not in template
