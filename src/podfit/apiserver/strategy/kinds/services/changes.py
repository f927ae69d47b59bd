"""Prepares updates of Services: keeps omitted fields, and drops those of the former type."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import invalid
from podfit.apiserver.strategy.base import Errors

ON_NODES = ("NodePort", "LoadBalancer")
POLICIES = ("Cluster", "Local")
FIXED = "may not change once set"


def keep_addresses(spec: Object, stored: Object) -> None:
    """Keeps the stored addresses in an update that omits them."""
    for field in ("clusterIP", "clusterIPs"):
        if not spec.get(field) and stored.get(field):
            spec[field] = stored[field]


def sync_addresses(spec: Object, stored: Object) -> None:
    """Updates clusterIPs if a client changes only clusterIP."""
    if (spec.get("clusterIP") or "") == (stored.get("clusterIP") or ""):
        return
    if (spec.get("clusterIPs") or []) == (stored.get("clusterIPs") or []):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []


def keep_node_ports(spec: Object, stored: Object) -> None:
    if health_checked(spec) and health_checked(stored) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = stored.get("healthCheckNodePort", 0)
    if not needs_ports(spec) or not needs_ports(stored):
        return
    ports, before = spec.get("ports") or [], stored.get("ports") or []
    used = {port.get("nodePort") for port in ports} & {port.get("nodePort") for port in before}
    known = {port.get("name", ""): port.get("nodePort") for port in before}
    for port in ports:
        number = known.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in used:
            port["nodePort"] = number


def drop_unused(spec: Object, stored: Object) -> None:
    """Drops fields that only the service's former type uses, unless the update changes them."""
    kind, before = spec.get("type"), stored.get("type")
    unused: list[str] = []
    if kind == "ExternalName" != before:
        unused += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    if before == "LoadBalancer" != kind:
        unused += ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]
    if accessible(stored) and not accessible(spec):
        unused.append("externalTrafficPolicy")
    if health_checked(stored) and not health_checked(spec):
        unused.append("healthCheckNodePort")
    for field in unused:
        if spec.get(field) == stored.get(field):
            spec.pop(field, None)
    if before in ON_NODES and kind not in ON_NODES:
        known = [port.get("nodePort") for port in stored.get("ports") or ()]
        if known == [port.get("nodePort") for port in spec.get("ports") or ()]:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)


def drop_internal(spec: Object) -> None:
    """Drops the internal traffic policy of an ExternalName service, which routes no traffic; older clients set it."""
    if spec.get("type") == "ExternalName" and spec.get("internalTrafficPolicy") in POLICIES:
        spec.pop("internalTrafficPolicy")


def addresses_changed(spec: Object, stored: Object, errors: Errors) -> None:
    mine, before = spec.get("clusterIPs") or [], stored.get("clusterIPs") or []
    if mine[:1] == before[:1] == ["None"]:
        return
    if before and not mine:
        errors.append(invalid("spec.clusterIPs[0]", mine, "primary clusterIP can not be unset"))
    pairs = list(zip(mine, before, strict=False))
    for at, (now, then) in enumerate(pairs if len(mine) == len(before) else pairs[:1]):
        if now != then:
            errors.append(invalid(f"spec.clusterIPs[{at}]", mine, FIXED))
    if len(before) > len(mine) == 1:
        _needs_single("secondary clusterIP", spec, errors)


def families_changed(spec: Object, stored: Object, errors: Errors) -> None:
    if "None" in (spec.get("clusterIP"), stored.get("clusterIP")):
        return
    mine, before, path = spec.get("ipFamilies") or [], stored.get("ipFamilies") or [], "spec.ipFamilies[0]"
    if len(mine) == len(before):
        errors.extend(invalid(path, mine, FIXED) for now, then in zip(mine, before, strict=True) if now != then)
        return
    if len(before) > len(mine) and not spec.get("clusterIPs"):
        errors.append(invalid(path, mine, "primary ipFamily can not be unset"))
    if mine and before and mine[0] != before[0]:
        errors.append(invalid(path, spec.get("clusterIPs"), FIXED))
    if len(before) > len(mine) == 1:
        _needs_single("secondary ipFamily", spec, errors)


def _needs_single(released: str, spec: Object, errors: Errors) -> None:
    policy = spec.get("ipFamilyPolicy")
    if policy != "SingleStack":
        detail = f"must be set to 'SingleStack' when releasing the {released}"
        errors.append(invalid("spec.ipFamilyPolicy", policy, detail))


def accessible(spec: Object) -> bool:
    kind = spec.get("type")
    return kind in ON_NODES or (kind == "ClusterIP" and bool(spec.get("externalIPs")))


def health_checked(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def needs_ports(spec: Object) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)
