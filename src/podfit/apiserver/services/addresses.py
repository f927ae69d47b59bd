"""Cluster addresses for Services: allocated on create, released when the Service is deleted.

What is taken is read from the stored Services at start and kept up to date by their changes; nothing else is stored.
"""

from __future__ import annotations

import ipaddress
import random

from podfit.api.objects import Object
from podfit.api.status import invalid, unprocessable
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.strategy.kinds.services import FAMILIES, FAMILY_POLICIES


class ServiceAddresses:
    def __init__(self, cidr: str) -> None:
        self._net = ipaddress.ip_network(cidr)
        self._family = f"IPv{self._net.version}"
        self._taken: set[str] = set()
        self.first = str(self._net.network_address + 1)
        """The address of the Service `kubernetes`."""
        self._taken.add(self.first)

    def clear(self) -> None:
        self._taken = {self.first}

    def learn(self, service: Object) -> None:
        self._taken.update(_addresses(service))

    def changed(self, event: WatchEvent) -> None:
        new = _addresses(event.new) if event.new else set()
        old = _addresses(event.old) if event.old else set()
        self._taken -= old - new - {self.first}
        self._taken |= new

    def allot(self, service: Object) -> None:
        """Fills clusterIP, clusterIPs and the families of a new Service; 422 when what it wants cannot be had."""
        spec = service.setdefault("spec", {})
        kind = spec.get("type", "ClusterIP")
        if kind == "ExternalName":
            return
        if not spec.get("clusterIP") and spec.get("clusterIPs"):
            _only_several(service, spec["clusterIPs"])
        wanted = spec.get("clusterIP") or (spec.get("clusterIPs") or [""])[0]
        self._choose_families(service, spec, wanted)
        if wanted == "None":
            spec["clusterIP"], spec["clusterIPs"] = "None", ["None"]
        else:
            address = self._claim(service, wanted) if wanted else self._free(service)
            spec["clusterIP"], spec["clusterIPs"] = address, [address]

    def _choose_families(self, service: Object, spec: Object, wanted: str) -> None:
        """One family, the cluster's. Only a Service without addresses and pods of its own may have others."""
        alone = wanted == "None" and not spec.get("selector")
        policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if alone else "SingleStack")
        families = spec.get("ipFamilies") or []
        if policy not in FAMILY_POLICIES or len(set(families)) < len(families) or not set(families) <= set(FAMILIES):
            return  # validation has the words for it
        errors = []
        if policy == "SingleStack" and len(families) > 1:
            detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
            errors.append(invalid("spec.ipFamilyPolicy", policy, detail))
        elif not alone:
            if policy == "RequireDualStack":
                detail = "this cluster is not configured for dual-stack services"
                errors.append(invalid("spec.ipFamilyPolicy", policy, detail))
            for at, family in enumerate(families):
                if family != self._family:
                    errors.append(invalid(f"spec.ipFamilies[{at}]", family, "not configured on this cluster"))
        if errors:
            raise unprocessable("Service", service.get("metadata", {}).get("name", ""), errors)
        families = families or [self._family]
        if alone and policy != "SingleStack":
            families = [*families, *(family for family in FAMILIES if family not in families)]
        spec["ipFamilies"] = families

    def _claim(self, service: Object, wanted: str) -> str:
        try:
            inside = ipaddress.ip_address(wanted) in self._net
        except ValueError:
            return wanted  # validation has the words for it
        name = service.get("metadata", {}).get("name", "")
        if not inside:
            why = f"failed to allocate IP {wanted}: the provided network does not match the current range"
            raise unprocessable("Service", name, [invalid("spec.clusterIPs", [wanted], why)])
        if wanted in self._taken and not (wanted == self.first and name == "kubernetes"):
            why = f"failed to allocate IP {wanted}: provided IP is already allocated"
            raise unprocessable("Service", name, [invalid("spec.clusterIPs", [wanted], why)])
        return wanted

    def _free(self, service: Object) -> str:
        size = self._net.num_addresses
        for _ in range(64):
            address = str(self._net.network_address + random.randrange(2, size - 1))
            if address not in self._taken:
                self._taken.add(address)
                return address
        for offset in range(2, size - 1):
            address = str(self._net.network_address + offset)
            if address not in self._taken:
                self._taken.add(address)
                return address
        name = service.get("metadata", {}).get("name", "")
        raise unprocessable("Service", name, [invalid("spec.clusterIPs", [], "range is full")])


def _only_several(service: Object, several: list[str]) -> None:
    errors = [invalid("spec.clusterIPs", several, "must be empty when `clusterIP` is not specified")]
    if len(several) > 1 and "None" in several:
        errors.append(invalid("spec.clusterIPs", several, "'None' must be the first and only value"))
    raise unprocessable("Service", service.get("metadata", {}).get("name", ""), errors)


def _addresses(service: Object) -> set[str]:
    spec = service.get("spec") or {}
    found = {spec.get("clusterIP", ""), *(spec.get("clusterIPs") or ())}
    return {address for address in found if address and address != "None"}
