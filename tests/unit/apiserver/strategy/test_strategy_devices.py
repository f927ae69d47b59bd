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


def reported(*rows: dict[str, Any]) -> list[str]:
    """The errors of a status in which a driver reports these rows about the device `d`."""
    named = {"driver": "a.io", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [{"request": "r", **named}]}}, "devices": []}
    old = {**claim({"name": "r"}), "status": status}
    new = {**old, "status": {**status, "devices": [{**named, **row} for row in rows]}}
    return [str(error) for error in strategy_for(kind_named("ResourceClaim")).validate_status(new, old)]


def test_a_device_is_reported_once() -> None:
    assert reported({}) == []
    shown = '{"Driver":"a.io","Pool":"p","Device":"d","ShareID":""}'
    assert reported({}, {}) == [f"status.devices[1]: Duplicate value: {shown}"]


def test_the_network_data_of_a_device_is_validated() -> None:
    addresses = ["300.9.8.0/24", "010.9.8.7/24", "2001:db8::1/64", "2001:db8::1/64"]
    data = {"interfaceName": "x" * 257, "hardwareAddress": "x" * 129, "ips": addresses}
    path = "status.devices[0].networkData"
    assert reported({"networkData": data}) == [
        f"{path}.interfaceName: Too long: may not be more than 256 bytes",
        f"{path}.hardwareAddress: Too long: may not be more than 128 bytes",
        f'{path}.ips[0]: Invalid value: "300.9.8.0/24": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or '
        "2001:db8::1/64)",
        f'{path}.ips[1]: Invalid value: "010.9.8.7/24": must be in canonical form ("10.9.8.7/24")',
        f'{path}.ips[3]: Duplicate value: "2001:db8::1/64"',
    ]
    assert reported({"networkData": {"ips": [f"10.0.0.{at}/24" for at in range(17)]}}) == [
        f"{path}.ips: Too many: 17: must have at most 16 items"
    ]


def test_a_share_of_a_device_is_named_by_a_uuid_in_lower_case() -> None:
    whole = "0123abcd-0123-0123-0123-0123456789ab"
    for uid, detail in (
        (whole.upper(), "uid must be in RFC 4122 normalized form"),
        (f"{{{whole}}}", "uid must be in RFC 4122 normalized form"),
        ("a", "error validating uid: invalid UUID length: 1"),
        (whole.replace("-", "_"), "error validating uid: invalid UUID format"),
    ):
        (error, _not_allocated) = reported({"shareID": uid})
        assert error.startswith("status.devices[0].shareID: Invalid value: ")
        assert detail in error


def test_a_device_has_at_most_eight_conditions_and_a_limited_amount_of_data() -> None:
    since = "2020-01-01T00:00:00Z"
    rows = [{"type": f"T{at}", "status": "True", "reason": "R", "lastTransitionTime": since} for at in range(9)]
    assert reported({"conditions": rows, "data": {"x": "y" * 10240}}) == [
        "status.devices[0].conditions: Too many: 9: must have at most 8 items",
        "status.devices[0].data: Too long: may not be more than 10240 bytes",
    ]
