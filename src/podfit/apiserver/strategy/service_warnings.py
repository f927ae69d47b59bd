"""Warnings about Services that are accepted: fields without effect or soon to be removed, and unusual notations."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.strategy.addresses import cidr_warnings, ip_warnings

_OLD_HINTS = "service.kubernetes.io/topology-aware-hints"
_NEW_HINTS = "service.kubernetes.io/topology-mode"


def service_warnings(service: Object) -> list[str]:
    spec, metadata = service.get("spec") or {}, service.get("metadata") or {}
    found: list[str] = []
    if _OLD_HINTS in (metadata.get("annotations") or {}):
        found.append(f"annotation {_OLD_HINTS} is deprecated, please use {_NEW_HINTS} instead")
    kind, address = spec.get("type"), spec.get("clusterIP")
    headless = address == "None" and kind != "ExternalName"
    if address and address != "None" and kind != "ExternalName":
        for at, text in enumerate(spec.get("clusterIPs") or ()):
            found += ip_warnings(text, f"spec.clusterIPs[{at}]")
    if headless:
        if spec.get("loadBalancerIP"):
            found.append("spec.loadBalancerIP is ignored for headless services")
        if spec.get("externalIPs"):
            found.append("spec.externalIPs is ignored for headless services")
        if spec.get("sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
    for at, text in enumerate(spec.get("externalIPs") or ()):
        found += ip_warnings(text, f"spec.externalIPs[{at}]")
    if spec.get("loadBalancerIP"):
        found += ip_warnings(spec["loadBalancerIP"], "spec.loadBalancerIP")
    for at, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        found += cidr_warnings(text, f"spec.loadBalancerSourceRanges[{at}]")
    if spec.get("externalIPs"):
        if kind == "ExternalName":
            found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        elif not headless:
            found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if kind != "ExternalName" and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found
