"""Cluster addresses for Services: allotted on create, free again when the Service is gone.

What is taken is read from the stored Services at start and kept up to date by their changes; nothing else is stored.
"""

from __future__ import annotations

import ipaddress
import random

from podfit.api.status import Object, invalid, unprocessable
from podfit.apiserver.events import Happening


class ServiceAddresses:
    def __init__(self, cidr: str) -> None:
        self._net = ipaddress.ip_network(cidr)
        self._taken: set[str] = set()
        self.first = str(self._net.network_address + 1)
        """The address of the Service `kubernetes`."""
        self._taken.add(self.first)

    def learn(self, service: Object) -> None:
        self._taken.update(_addresses(service))

    def changed(self, happening: Happening) -> None:
        new = _addresses(happening.new) if happening.new else set()
        old = _addresses(happening.old) if happening.old else set()
        self._taken -= old - new - {self.first}
        self._taken |= new

    def allot(self, service: Object) -> None:
        """Fills clusterIP and clusterIPs of a new Service; 422 when the wanted address cannot be had."""
        spec = service.setdefault("spec", {})
        kind = spec.get("type", "ClusterIP")
        if kind == "ExternalName":
            return
        wanted = spec.get("clusterIP") or (spec.get("clusterIPs") or [""])[0]
        if wanted == "None":
            spec["clusterIP"], spec["clusterIPs"] = "None", ["None"]
        else:
            address = self._claim(service, wanted) if wanted else self._free(service)
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _claim(self, service: Object, wanted: str) -> str:
        try:
            inside = ipaddress.ip_address(wanted) in self._net
        except ValueError:
            return wanted  # validation has the words for it
        name = service.get("metadata", {}).get("name", "")
        if not inside:
            why = (
                f"failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range. "
                f"The range of valid IPs is {self._net}"
            )
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


def _addresses(service: Object) -> set[str]:
    spec = service.get("spec") or {}
    found = {spec.get("clusterIP", ""), *(spec.get("clusterIPs") or ())}
    return {address for address in found if address and address != "None"}
