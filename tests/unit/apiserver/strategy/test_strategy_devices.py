"""Rules of resource.k8s.io that the recordings do not cover."""

from __future__ import annotations

from typing import Any

from podfit.api.registry.kinds import kind_named
from podfit.apiserver.strategy import strategy_for

NAMED = {"metadata": {"name": "a", "namespace": "ns"}}


def claim(*requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**NAMED, "spec": {"devices": {"requests": list(requests), **more}}}


def complaints(kind: str, obj: dict[str, Any]) -> list[str]:
    strategy = strategy_for(kind_named(kind))
    strategy.default(obj)
    return [str(error) for error in strategy.validate_create(obj)]


def test_alternatives_are_defaulted_and_named_with_their_request() -> None:
    request = {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}
    obj = claim(request, constraints=[{"requests": ["r/s"], "matchAttribute": "a.io/b"}])
    assert complaints("ResourceClaim", obj) == []
    assert request["firstAvailable"][0]["count"] == 1  # type: ignore[index]
    obj = claim(request, constraints=[{"requests": ["r/t"], "matchAttribute": "b"}])
    assert [text.split(":")[0] for text in complaints("ResourceClaim", obj)] == [
        "spec.devices.constraints[0].requests[0]",
        "spec.devices.constraints[0].matchAttribute",
    ]


def test_selectors_are_compiled() -> None:
    def errors(text: str) -> list[str]:
        selectors = [{"cel": {"expression": text}}]
        return complaints(
            "ResourceClaim", claim({"name": "r", "exactly": {"deviceClassName": "c", "selectors": selectors}})
        )

    assert errors("device.attributes['a.io'].size > 3") == []
    assert "must evaluate to bool" in errors("1 + 1")[0]
    assert "Syntax error" in errors("device.")[0]


def test_a_claim_in_use_keeps_its_allocation() -> None:
    strategy = strategy_for(kind_named("ResourceClaim"))
    result = {"request": "r", "driver": "d.io", "pool": "p", "device": "x"}
    old = {**claim({"name": "r"}), "status": {}}
    new = {**old, "status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"resource": "pods"}]}}
    assert [error.path for error in strategy.validate_status(new, old)] == [
        "status.reservedFor[0].name",
        "status.reservedFor[0].uid",
    ]
    changed = {**new, "status": {"allocation": {"devices": {"results": []}}}}
    assert [error.path for error in strategy.validate_status(changed, new)] == ["status.allocation"]


def test_a_slice_says_where_its_devices_are_and_each_device_has_one_value_an_attribute() -> None:
    pool = {"name": "p", "resourceSliceCount": 1}
    device = {"name": "d", "attributes": {"a.io/b": {"int": 1, "bool": True}, "v": {"version": "1"}}}
    slice_ = {"metadata": {"name": "a"}, "spec": {"driver": "d.io", "pool": pool, "devices": [device]}}
    assert [text.split(":")[0] for text in complaints("ResourceSlice", slice_)] == [
        "spec",
        "spec.devices[0].attributes[a.io/b]",
        "spec.devices[0].attributes[v].version",
    ]
