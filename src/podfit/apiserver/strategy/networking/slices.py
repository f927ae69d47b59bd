"""The strategy of EndpointSlices."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required, too_many
from podfit.api.text import names
from podfit.apiserver.strategy.addresses import canonical_ip, endpoint_ip, ip_warnings, strict_ip
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, equal, labels, names_valid, same_fields
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.podspec.containers import PROTOCOLS

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ADDRESSES, _MOST_PORTS, _MOST_ENDPOINTS, _MOST_LABELS, _MOST_HINTS = 100, 20_000, 1000, 16, 8
_HOSTNAME = "kubernetes.io/hostname"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_OWN_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")


class EndpointSliceStrategy(Strategy):
    update_checks = "w"
    has_status = False

    def default(self, obj: Object) -> None:
        for port in obj.get("ports") or ():
            set_default(port, "name", "")
            set_default(port, "protocol", "TCP")

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        for endpoint in obj.get("endpoints") or ():
            endpoint.pop("deprecatedTopology", None)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        super().prepare_update(new, old, subresource)
        if equal(new.get("endpoints"), old.get("endpoints")):
            return
        known = {(row.get("deprecatedTopology") or {}).get(_HOSTNAME) for row in old.get("endpoints") or ()}
        for endpoint in new.get("endpoints") or ():
            node = (endpoint.pop("deprecatedTopology", None) or {}).get(_HOSTNAME)
            if node and node in known and endpoint.get("nodeName") is None and not names.dns_subdomain(node):
                endpoint["nodeName"] = node

    def spec_changed(self, new: Object, old: Object) -> bool:
        mine, stored = new.get("metadata") or {}, old.get("metadata") or {}
        return not same_fields(new, old, but="metadata") or not equal(mine.get("labels"), stored.get("labels"))

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        kind = obj.get("addressType", "")
        if not kind:
            errors.append(required("addressType"))
        elif kind not in _ADDRESS_TYPES:
            errors.append(not_supported("addressType", kind, _ADDRESS_TYPES))
        _ports(obj.get("ports") or [], errors)
        _endpoints(obj.get("endpoints") or [], kind, errors)
        return errors

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        errors = super().validate_update(new, old, subresource)
        if errors and equal(new.get("endpoints"), old.get("endpoints")):
            # Values accepted by an older version remain valid until they are changed.
            return [error for error in errors if not error.path.startswith("endpoints")]
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        same = new.get("addressType") == old.get("addressType")
        return [] if same else [invalid("addressType", new.get("addressType"), IMMUTABLE)]

    def warnings_create(self, obj: Object) -> list[str]:
        first = ["spec.addressType: FQDN endpoints are deprecated"] if obj.get("addressType") == "FQDN" else []
        return first + self.warnings_update(obj, {})

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        if ((new.get("metadata") or {}).get("labels") or {}).get(_MANAGED_BY) in _OWN_CONTROLLERS:
            return []
        return [
            text
            for at, endpoint in enumerate(new.get("endpoints") or ())
            for number, address in enumerate(endpoint.get("addresses") or ())
            for text in ip_warnings(address, f"endpoints[{at}].addresses[{number}]")
        ]


def _ports(ports: list[Object], errors: Errors) -> None:
    if len(ports) > _MOST_PORTS:
        errors.append(too_many("ports", len(ports), _MOST_PORTS))
        return
    seen: set[str] = set()
    for at, port in enumerate(ports):
        path, name = f"ports[{at}]", port.get("name") or ""
        if name:
            names_valid(name, f"{path}.name", names.dns_label(name), errors)
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        if port.get("protocol") not in PROTOCOLS:
            errors.append(not_supported(f"{path}.protocol", port.get("protocol"), PROTOCOLS))
        if (protocol := port.get("appProtocol")) is not None:
            names_valid(protocol, f"{path}.appProtocol", names.qualified_name(protocol), errors)


def _endpoints(endpoints: list[Object], kind: str, errors: Errors) -> None:
    if len(endpoints) > _MOST_ENDPOINTS:
        errors.append(too_many("endpoints", len(endpoints), _MOST_ENDPOINTS))
        return
    for at, endpoint in enumerate(endpoints):
        path, addresses = f"endpoints[{at}]", endpoint.get("addresses") or []
        if not addresses:
            errors.append(required(f"{path}.addresses", "must contain at least 1 address"))
        elif len(addresses) > _MOST_ADDRESSES:
            errors.append(too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES))
        for number, text in enumerate(addresses):
            _address(text, kind, f"{path}.addresses", number, errors)
        if (node := endpoint.get("nodeName")) is not None:
            names_valid(node, f"{path}.nodeName", names.dns_subdomain(node), errors)
        topology = endpoint.get("deprecatedTopology") or {}
        if len(topology) > _MOST_LABELS:
            errors.append(too_many(f"{path}.deprecatedTopology", len(topology), _MOST_LABELS))
        labels(topology, f"{path}.deprecatedTopology", errors)
        if (host := endpoint.get("hostname")) is not None:
            names_valid(host, f"{path}.hostname", names.dns_label(host), errors)
        _hints(endpoint.get("hints") or {}, f"{path}.hints", errors)


def _address(text: str, kind: str, path: str, number: int, errors: Errors) -> None:
    here = f"{path}[{number}]"
    if kind == "FQDN":
        _domain(text, here, errors)
    elif kind in ("IPv4", "IPv6"):
        found: Errors = []
        address = (strict_ip if kind == "IPv4" else canonical_ip)(text, here, found)
        errors += found
        if not found and address is not None:
            if address.version != int(kind[-1]):
                errors.append(invalid(path, text, f"must be an {kind} address"))
            endpoint_ip(text, here, errors)


def _domain(text: str, path: str, errors: Errors) -> None:
    if not text:
        errors.append(required(path))
        return
    name = text.removesuffix(".")
    if complaints := names.dns_subdomain(name):
        errors.append(invalid(path, name, ",".join(complaints)))
    elif "." not in name:
        detail = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(path, name, detail))
    else:
        for label in name.split("."):
            if found := names.dns_label(label):
                errors.append(invalid(path, label, ",".join(found)))
                return


def _hints(hints: Object, path: str, errors: Errors) -> None:
    for field, grammar in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        rows, seen = hints.get(field) or [], set()
        if len(rows) > _MOST_HINTS:
            errors.append(too_many(f"{path}.{field}", len(rows), _MOST_HINTS))
            return
        for at, row in enumerate(rows):
            name, here = row.get("name", ""), f"{path}.{field}[{at}].name"
            if name in seen:
                errors.append(duplicate(here, name))
            seen.add(name)
            names_valid(name, here, grammar(name), errors)
