"""Cluster addresses of Services: allocated on create, released when the Service is deleted.

Allocated addresses are read from the stored Services at start and updated by their changes; nothing else is stored.
"""

from __future__ import annotations

import ipaddress
import random

from podfit.api.objects import Object
from podfit.api.status import invalid, unprocessable
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.strategy.addresses import FAMILIES, address_errors


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

    def allot(self, service: Object, dry_run: bool = False) -> None:
        """Sets clusterIP, clusterIPs and the families of a new Service; 422 if the requested ones are not available."""
        spec = service.setdefault("spec", {})
        kind = spec.get("type", "ClusterIP")
        if kind == "ExternalName":
            return
        if errors := address_errors(spec):
            raise unprocessable("Service", service.get("metadata", {}).get("name", ""), errors)
        wanted = spec.get("clusterIP") or (spec.get("clusterIPs") or [""])[0]
        self._choose_families(service, spec, wanted)
        if wanted == "None":
            spec["clusterIP"], spec["clusterIPs"] = "None", ["None"]
        else:
            address = self._claim(service, wanted, dry_run) if wanted else self._free(service, dry_run)
            spec["clusterIP"], spec["clusterIPs"] = address, [address]

    def _choose_families(self, service: Object, spec: Object, wanted: str) -> None:
        """One family, the cluster's. Only a Service without addresses and pods of its own may have others."""
        alone = wanted == "None" and not spec.get("selector")
        policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if alone else "SingleStack")
        families = spec.get("ipFamilies") or []
        errors = []
        for field, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if policy == "SingleStack" and len(spec.get(field) or ()) > 1:
                detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                errors.append(invalid("spec.ipFamilyPolicy", policy, detail))
        several = [] if wanted == "None" else spec.get("clusterIPs") or []
        for at, text in enumerate(several[len(families) :], len(families)):
            family = f"IPv{ipaddress.ip_address(text).version}"
            if family != self._family:
                detail = f"{family} is not configured on this cluster"
                errors.append(invalid(f"spec.clusterIPs[{at}]", several, detail))
        if not errors and not alone:
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

    def _claim(self, service: Object, wanted: str, dry_run: bool) -> str:
        address, name = ipaddress.ip_address(wanted), service.get("metadata", {}).get("name", "")
        net = self._net
        usable = address in net and address not in (net.network_address, net.broadcast_address)
        if dry_run:
            # The address has no owner to check, and the error for one outside the range is different.
            outside = f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {net}"
            why = "" if usable else outside
        elif not usable:
            why = "the provided network does not match the current range"
        else:
            free = wanted not in self._taken or (wanted == self.first and name == "kubernetes")
            why = "" if free else "provided IP is already allocated"
        if why:
            error = invalid("spec.clusterIPs", [wanted], f"failed to allocate IP {wanted}: {why}")
            raise unprocessable("Service", name, [error])
        return wanted

    def _free(self, service: Object, dry_run: bool) -> str:
        if dry_run:
            return str(self._net.network_address)
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


def _addresses(service: Object) -> set[str]:
    spec = service.get("spec") or {}
    found = {spec.get("clusterIP", ""), *(spec.get("clusterIPs") or ())}
    return {address for address in found if address and address != "None"}
