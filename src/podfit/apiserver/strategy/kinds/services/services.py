"""Strategies of Services and Endpoints. The address of a Service is allocated elsewhere (`services/addresses.py`)."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import FieldError, duplicate, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.addresses import address_errors, endpoint_ip, strict_cidr, strict_ip
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import chosen, labels, names_valid, parse_ip
from podfit.apiserver.strategy.checks import port as port_valid
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.kinds.services.annotations import range_errors, topology_errors
from podfit.apiserver.strategy.kinds.services.changes import (
    FIXED,
    ON_NODES,
    POLICIES,
    accessible,
    addresses_changed,
    drop_internal,
    drop_unused,
    families_changed,
    health_checked,
    keep_addresses,
    keep_node_ports,
    sync_addresses,
)
from podfit.apiserver.strategy.podspec.containers import PROTOCOLS
from podfit.apiserver.strategy.service_warnings import service_warnings

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_NEARNESS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_MODES = ("Proxy", "VIP")
_AFFINITY_S = 10_800
_LONGEST_AFFINITY_S = 86_400


class ServiceStrategy(Strategy):
    update_checks = "c"
    has_generation = False
    changes_first = True
    create_on_update = True

    def warnings_create(self, obj: Object) -> list[str]:
        return service_warnings(obj)

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return [] if subresource else service_warnings(new)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("sessionAffinity"):
            spec["sessionAffinity"] = "None"
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            config = spec.setdefault("sessionAffinityConfig", {}) or {}
            spec["sessionAffinityConfig"] = config
            client = config.setdefault("clientIP", {}) or {}
            config["clientIP"] = client
            set_default(client, "timeoutSeconds", _AFFINITY_S)
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        for port in spec.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if accessible(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if spec["type"] in ("ClusterIP", *ON_NODES):
            set_default(spec, "internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            set_default(spec, "allocateLoadBalancerNodePorts", True)
            for row in _balanced(obj):
                if row.get("ip"):
                    set_default(row, "ipMode", "VIP")

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        drop_internal(obj["spec"])
        cluster_ip = obj["spec"].get("clusterIP")
        if cluster_ip and not obj["spec"].get("clusterIPs"):
            obj["spec"]["clusterIPs"] = [cluster_ip]

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        super().prepare_update(new, old, subresource)
        if subresource == "status":
            return
        spec, stored = new.setdefault("spec", {}), old.get("spec") or {}
        if "ExternalName" not in (spec.get("type"), stored.get("type")):
            keep_addresses(spec, stored)
            keep_node_ports(spec, stored)
        sync_addresses(spec, stored)
        drop_unused(spec, stored)
        drop_internal(spec)

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        return names.dns_label(name, prefix)

    def validate(self, obj: Object) -> Errors:
        return self._validate(obj, {})

    def _validate(self, obj: Object, old: Object) -> Errors:
        """Validates a Service. The addresses and ranges of the stored one (`old`) remain valid in any notation."""
        errors = topology_errors(obj)
        spec, stored = obj.get("spec") or {}, old.get("spec") or {}
        known = (*(stored.get("externalIPs") or ()), *(stored.get("loadBalancerSourceRanges") or ()))
        kind, headless, ports = spec.get("type", ""), spec.get("clusterIP") == "None", spec.get("ports") or []
        if not ports and not headless and kind != "ExternalName":
            errors.append(required("spec.ports"))
        if kind in ON_NODES and headless:
            detail = f"may not be set to 'None' for {kind} services"
            errors.append(invalid("spec.clusterIPs[0]", "None", detail))
        if kind == "ExternalName":
            _external_name(spec, errors)
        _ports(ports, errors)
        labels(spec.get("selector"), "spec.selector", errors)
        _affinity(spec, errors)
        if kind != "ExternalName":
            errors += address_errors(spec)
        for at, text in enumerate(spec.get("externalIPs") or ()):
            found: Errors = []
            strict_ip(text, f"spec.externalIPs[{at}]", found, known)
            errors += found
            if not found:
                endpoint_ip(text, f"spec.externalIPs[{at}]", errors)
        chosen(kind, "spec.type", _TYPES, errors)
        _node_ports(kind, ports, errors)
        _balancer(spec, kind, known, errors)
        if not spec.get("loadBalancerSourceRanges"):
            errors += range_errors(obj, old)
        _balancer_allocation(spec, kind, errors)
        _traffic(spec, kind, errors)
        return errors

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        if subresource == "status":
            return super().validate_update(new, old, subresource)
        errors = self.validate_update_meta(new, old, subresource)
        return errors + self.validate_change(new, old) + self._validate(new, old)

    def validate_status(self, new: Object, old: Object) -> Errors:
        rows, path = _balanced(new), "status.loadBalancer.ingress"
        if rows and (new.get("spec") or {}).get("type") != "LoadBalancer":
            return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
        errors: Errors = []
        known = [row.get("ip", "") for row in _balanced(old)]
        for at, row in enumerate(rows):
            here, host, mode = f"{path}[{at}]", row.get("hostname", ""), row.get("ipMode")
            if row.get("ip"):
                strict_ip(row["ip"], f"{here}.ip", errors, known)
            if row.get("ip") and mode is None:
                errors.append(required(f"{here}.ipMode", "must be specified when `ip` is set"))
            elif not row.get("ip") and mode is not None:
                errors.append(forbidden(f"{here}.ipMode", "may not be specified when `ip` is not set"))
            elif mode is not None and mode not in _MODES:
                errors.append(not_supported(f"{here}.ipMode", mode, _MODES))
            if host:
                names_valid(host, f"{here}.hostname", names.dns_subdomain(host), errors)
                if parse_ip(host) is not None:
                    errors.append(invalid(f"{here}.hostname", host, "must be a DNS name, not an IP address"))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        spec, stored = new.get("spec") or {}, old.get("spec") or {}
        errors: Errors = []
        if "ExternalName" not in (spec.get("type"), stored.get("type")):
            addresses_changed(spec, stored, errors)
            families_changed(spec, stored, errors)
        mine, before = spec.get("loadBalancerClass"), stored.get("loadBalancerClass")
        if spec.get("type") == stored.get("type") == "LoadBalancer" and mine != before:
            errors.append(invalid("spec.loadBalancerClass", mine, FIXED))
        _balancer_class(spec, errors)  # Kubernetes checks this twice, and reports the error twice.
        numbers = (spec.get("healthCheckNodePort"), stored.get("healthCheckNodePort"))
        if health_checked(spec) and health_checked(stored) and numbers[0] != numbers[1]:
            errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
        return errors


def _balanced(obj: Object) -> list[Object]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def _balancer(spec: Object, kind: str, known: tuple[str, ...], errors: Errors) -> None:
    ranges, path = spec.get("loadBalancerSourceRanges") or [], "spec.LoadBalancerSourceRanges"
    if ranges and kind != "LoadBalancer":
        errors.append(forbidden(path, "may only be used when `type` is 'LoadBalancer'"))
    for at, text in enumerate(ranges):
        strict_cidr(text.strip(), f"{path}[{at}]", errors, known)


def _balancer_allocation(spec: Object, kind: str, errors: Errors) -> None:
    if kind != "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not None:
        detail = "may only be used when `type` is 'LoadBalancer'"
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", detail))
    _balancer_class(spec, errors)


def _balancer_class(spec: Object, errors: Errors) -> None:
    name, path = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if name is None:
        return
    if spec.get("type") == "LoadBalancer":
        names_valid(name, path, names.qualified_name(name), errors)
    else:
        errors.append(forbidden(path, "may only be used when `type` is 'LoadBalancer'"))


def _external_name(spec: Object, errors: Errors) -> None:
    for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(field):
            errors.append(forbidden(f"spec.{field}", "may not be set for ExternalName services"))
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        errors.append(required("spec.externalName"))
    else:
        names_valid(name, "spec.externalName", names.dns_subdomain(name), errors)


def _ports(ports: list[Object], errors: Errors) -> None:
    seen: set[str] = set()
    for at, port in enumerate(ports):
        path, name = f"spec.ports[{at}]", port.get("name", "")
        if name:
            names_valid(name, f"{path}.name", names.dns_label(name), errors)
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        number = port.get("port", 0)
        for text in names.port_number(number):
            errors.append(invalid(f"{path}.port", number, text))
        chosen(port.get("protocol"), f"{path}.protocol", PROTOCOLS, errors)
        port_valid(port.get("targetPort"), f"{path}.targetPort", errors)
        protocol = port.get("appProtocol")
        if protocol is not None:
            names_valid(protocol, f"{path}.appProtocol", names.qualified_name(protocol), errors)


def _affinity(spec: Object, errors: Errors) -> None:
    kind, path = spec.get("sessionAffinity"), "spec.sessionAffinityConfig"
    chosen(kind, "spec.sessionAffinity", ("ClientIP", "None"), errors)
    if kind == "None" and spec.get("sessionAffinityConfig") is not None:
        errors.append(forbidden(path, "must not be set when session affinity is None"))
    if kind != "ClientIP":
        return
    client = (spec.get("sessionAffinityConfig") or {}).get("clientIP")
    timeout = (client or {}).get("timeoutSeconds")
    if timeout is None:
        errors.append(required(f"{path}.clientIP.timeoutSeconds", "when session affinity type is ClientIP"))
    elif not 0 < timeout <= _LONGEST_AFFINITY_S:
        detail = f"must be greater than 0 and less than {_LONGEST_AFFINITY_S}"
        errors.append(invalid(f"{path}.clientIP.timeoutSeconds", timeout, detail))


def _node_ports(kind: str, ports: list[Object], errors: Errors) -> None:
    on_nodes: set[tuple[str, int]] = set()
    served: set[tuple[str, int]] = set()
    repeated: Errors = []
    for at, port in enumerate(ports):
        path, node, protocol = f"spec.ports[{at}]", port.get("nodePort", 0), port.get("protocol", "")
        if node and kind == "ClusterIP":
            errors.append(forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        if node and (protocol, node) in on_nodes:
            errors.append(duplicate(f"{path}.nodePort", node))
        on_nodes.add((protocol, node))
        if (protocol, port.get("port", 0)) in served:
            shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": port["port"]}
            repeated.append(duplicate(path, {**shown, "TargetPort": 0, "NodePort": 0}))
        served.add((protocol, port.get("port", 0)))
    errors.extend(repeated)


def _traffic(spec: Object, kind: str, errors: Errors) -> None:
    external, internal = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    if external and not accessible(spec):
        detail = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", external, detail))
    elif external and external not in POLICIES:
        errors.append(not_supported("spec.externalTrafficPolicy", external, POLICIES))
    if number := spec.get("healthCheckNodePort"):
        if (kind, external) == ("LoadBalancer", "Local"):
            names_valid(number, "spec.healthCheckNodePort", names.port_number(number), errors)
        else:
            detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid("spec.healthCheckNodePort", number, detail))
    if internal is not None and internal not in POLICIES:
        errors.append(not_supported("spec.internalTrafficPolicy", internal, POLICIES))
    nearness = spec.get("trafficDistribution")
    if nearness is not None and nearness not in _NEARNESS:
        errors.append(not_supported("spec.trafficDistribution", nearness, _NEARNESS))


class EndpointsStrategy(Strategy):
    has_generation = False
    has_status = False
    create_on_update = True

    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                if not port.get("protocol"):
                    port["protocol"] = "TCP"

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        for at, subset in enumerate(obj.get("subsets") or ()):
            path = f"subsets[{at}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
            for field in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(field) or ()):
                    _endpoint(address, f"{path}.{field}[{number}]", errors)
            ports = subset.get("ports") or ()
            for number, port in enumerate(ports):
                here = f"{path}.ports[{number}]"
                name = port.get("name")
                if name:
                    names_valid(name, f"{here}.name", names.dns_label(name), errors)
                elif len(ports) > 1:
                    errors.append(required(f"{here}.name"))
                for text in names.port_number(port.get("port", 0)):
                    errors.append(invalid(f"{here}.port", port.get("port", 0), text))
                chosen(port.get("protocol"), f"{here}.protocol", PROTOCOLS, errors)
                if (protocol := port.get("appProtocol")) is not None:
                    names_valid(protocol, f"{here}.appProtocol", names.qualified_name(protocol), errors)
        return errors


def _endpoint(address: Object, path: str, errors: Errors) -> None:
    text, found = address.get("ip", ""), list[FieldError]()
    strict_ip(text, f"{path}.ip", found)
    errors += found
    host, node = address.get("hostname"), address.get("nodeName")
    if host:
        names_valid(host, f"{path}.hostname", names.dns_label(host), errors)
    if node is not None:
        names_valid(node, f"{path}.nodeName", names.dns_subdomain(node), errors)
    endpoint_ip(text, f"{path}.ip", errors)
