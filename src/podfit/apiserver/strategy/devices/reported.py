"""Validates the status that a driver reports for each allocated device of a claim."""

from __future__ import annotations

import re

from podfit.api.objects import Object
from podfit.api.status import go_quote, invalid, too_long, too_many
from podfit.apiserver.strategy.addresses import parse_cidr
from podfit.apiserver.strategy.base import Errors
from podfit.apiserver.strategy.checks import parse_ip
from podfit.apiserver.strategy.conditions import conditions
from podfit.apiserver.strategy.devices.names import label, pool_name, raw, unique
from podfit.apiserver.strategy.storage.csi import driver_name

_MOST_CONDITIONS, _MOST_ADDRESSES, _ANY_NUMBER = 8, 16, -1
_LONGEST_INTERFACE, _LONGEST_HARDWARE = 256, 128
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}")
_NO_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_NORMAL_UUID = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)


def identity(row: Object) -> dict[str, str]:
    """A device's identity as Kubernetes prints it."""
    shown = {"Driver": "driver", "Pool": "pool", "Device": "device", "ShareID": "shareID"}
    return {name: row.get(field) or "" for name, field in shown.items()}


def named_device(row: Object, path: str, errors: Errors) -> None:
    driver_name(row.get("driver", ""), f"{path}.driver", errors)
    pool_name(row.get("pool", ""), f"{path}.pool", errors)
    label(row.get("device", ""), f"{path}.device", errors)


def share(row: Object, path: str, errors: Errors) -> None:
    uid = row.get("shareID")
    if uid is None:
        return
    plain = uid
    if len(uid) == 45 and uid[:9].lower() == "urn:uuid:":
        plain = uid[9:]
    elif len(uid) == 38 and uid[0] == "{" and uid[-1] == "}":
        plain = uid[1:-1]
    if not _UUID.fullmatch(plain):
        errors.append(invalid(f"{path}.shareID", uid, f"error validating uid: {_fault(uid)}"))
    elif len(uid) != 36 or uid != uid.lower():
        errors.append(invalid(f"{path}.shareID", uid, _NORMAL_UUID))


def _fault(uid: str) -> str:
    size = len(uid)
    if size == 45 and uid[:9].lower() != "urn:uuid:":
        return f"invalid urn prefix: {go_quote(uid[:9])}"
    if size == 38 and (uid[0], uid[-1]) != ("{", "}"):
        return "invalid bracketed UUID format"
    return "invalid UUID format" if size in (32, 36, 38, 45) else f"invalid UUID length: {size}"


def reported_devices(rows: list[Object], allocated: list[dict[str, str]], errors: Errors) -> None:
    def reported(row: Object, path: str, found: Errors) -> None:
        named_device(row, path, found)
        share(row, path, found)
        if identity(row) not in allocated:
            found.append(invalid(path, identity(row), "must be an allocated device in the claim"))
        if len(row.get("conditions") or ()) > _MOST_CONDITIONS:
            found.append(too_many(f"{path}.conditions", len(row["conditions"]), _MOST_CONDITIONS))
        conditions(row.get("conditions") or (), f"{path}.conditions", found)
        if row.get("data") is not None:
            raw(row["data"], f"{path}.data", found)
        if row.get("networkData") is not None:
            _network(row["networkData"], f"{path}.networkData", found)

    unique(rows, _ANY_NUMBER, reported, identity, "status.devices", errors)


def _network(data: Object, path: str, errors: Errors) -> None:
    for field, longest in (("interfaceName", _LONGEST_INTERFACE), ("hardwareAddress", _LONGEST_HARDWARE)):
        if len((data.get(field) or "").encode()) > longest:
            errors.append(too_long(f"{path}.{field}", longest))
    unique(data.get("ips"), _MOST_ADDRESSES, _interface_address, str, f"{path}.ips", errors)


def _interface_address(text: str, path: str, errors: Errors) -> None:
    network, address = parse_cidr(text), parse_ip(text.partition("/")[0])
    if network is None or address is None:
        errors.append(invalid(path, text, _NO_ADDRESS))
    elif text != (canonical := f"{address}/{network.prefixlen}"):
        errors.append(invalid(path, text, f"must be in canonical form ({go_quote(canonical)})"))
