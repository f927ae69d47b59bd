"""Cluster addresses of Services: allocated on create, released when the Service is deleted.

Allocated addresses are read from the stored Services at start and updated by their changes; nothing else is stored. An
address allocated to a Service that is not stored yet is reserved for a minute.
"""

from __future__ import annotations

import ipaddress
import random

from podfit.api.objects import Object
from podfit.api.status import invalid, unprocessable
from podfit.apiserver.storage.events import WatchEvent
from podfit.apiserver.strategy.addresses import FAMILIES, address_errors
from podfit.apiserver.strategy.base import Errors
from podfit.kit.clock import Clock, RealClock

_HELD_S = 60.0
_Key = tuple[str, str]


class ServiceAddresses:
    def __init__(self, cidr: str, clock: Clock | None = None) -> None:
        self._net, self._clock = ipaddress.ip_network(cidr), clock or RealClock()
        self._family = f"IPv{self._net.version}"
        self._of: dict[_Key, set[str]] = {}
        """The stored addresses of each Service."""
        self._taken: set[str] = set()
        self._held: dict[str, tuple[_Key, float]] = {}
        """The reservations by address: the Service, which is not stored yet, and the time of the allocation."""
        self.first = str(self._net.network_address + 1)
        """The address of the Service `kubernetes`."""
        self._taken.add(self.first)

    def clear(self) -> None:
        self._of, self._taken = {}, {self.first}

    def learn(self, service: Object) -> None:
        """Records the addresses of a stored Service."""
        key, mine = _key(service), _addresses(service)
        self._taken -= self._of.get(key, set()) - mine - {self.first}
        self._taken |= mine
        self._held = {address: held for address, held in self._held.items() if held[0] != key}
        if mine:
            self._of[key] = mine
        else:
            self._of.pop(key, None)

    def changed(self, event: WatchEvent) -> None:
        """A change written by this server or another one."""
        if event.new is not None:
            self.learn(event.new)
        elif event.old is not None:
            self._taken -= self._of.pop(_key(event.old), set()) - {self.first}

    def allocate(self, service: Object, dry_run: bool = False) -> None:
        """Sets clusterIP, clusterIPs and the families of a new Service; 422 if the requested ones are not available."""
        spec = service.setdefault("spec", {})
        if spec.get("type", "ClusterIP") == "ExternalName":
            return
        wanted = spec.get("clusterIP") or (spec.get("clusterIPs") or [""])[0]
        self._settle_families(service, spec, {}, wanted)
        self._allocate(service, spec, wanted, dry_run)

    def reallocate(self, service: Object, old: Object, dry_run: bool = False) -> None:
        """Like `allocate`, for an update; a Service that was an ExternalName gets its first address."""
        spec, stored = service.setdefault("spec", {}), old.get("spec") or {}
        if spec.get("type") == "ExternalName" or _both_prefer(spec, stored):
            return
        wanted = spec.get("clusterIP") or ""
        self._settle_families(service, spec, stored, wanted)
        if stored.get("type") == "ExternalName":
            self._allocate(service, spec, wanted, dry_run)

    def _allocate(self, service: Object, spec: Object, wanted: str, dry_run: bool) -> None:
        if wanted == "None":
            spec["clusterIP"], spec["clusterIPs"] = "None", ["None"]
        else:
            address = self._claim(service, wanted, dry_run) if wanted else self._free(service, dry_run)
            spec["clusterIP"], spec["clusterIPs"] = address, [address]

    def _settle_families(self, service: Object, spec: Object, stored: Object, wanted: str) -> None:
        """Sets the cluster's only family. A headless Service without a selector may have others."""
        alone = wanted == "None" and not spec.get("selector")
        otherwise = "RequireDualStack" if alone else "SingleStack"
        policy = spec["ipFamilyPolicy"] = spec.get("ipFamilyPolicy") or stored.get("ipFamilyPolicy") or otherwise
        errors = address_errors(spec)
        if not errors:
            errors = _released(spec, stored, policy) + self._policy_errors(spec, policy, wanted)
        families = spec.get("ipFamilies") or []
        if not errors and not alone:
            errors = self._unserved(families, policy)
        if errors:
            raise unprocessable("Service", service.get("metadata", {}).get("name", ""), errors)
        families = families or [self._family]
        if alone and policy != "SingleStack":
            families = [*families, *(family for family in FAMILIES if family not in families)]
        spec["ipFamilies"] = families

    def _policy_errors(self, spec: Object, policy: str, wanted: str) -> Errors:
        errors: Errors = []
        families = spec.get("ipFamilies") or []
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
        return errors

    def _unserved(self, families: list[str], policy: str) -> Errors:
        errors: Errors = []
        if policy == "RequireDualStack":
            detail = "this cluster is not configured for dual-stack services"
            errors.append(invalid("spec.ipFamilyPolicy", policy, detail))
        for at, family in enumerate(families):
            if family != self._family:
                errors.append(invalid(f"spec.ipFamilies[{at}]", family, "not configured on this cluster"))
        return errors

    def _claim(self, service: Object, wanted: str, dry_run: bool) -> str:
        address, name = ipaddress.ip_address(wanted), service.get("metadata", {}).get("name", "")
        net = self._net
        usable = address in net and address not in (net.network_address, net.broadcast_address)
        if dry_run:
            # There is no owner to check, and the error for an address outside the range is different.
            outside = f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {net}"
            why = "" if usable else outside
        elif not usable:
            why = "the provided network does not match the current range"
        else:
            free = not self._is_taken(wanted, service) or (wanted == self.first and name == "kubernetes")
            why = "" if free else "provided IP is already allocated"
        if why:
            error = invalid("spec.clusterIPs", [wanted], f"failed to allocate IP {wanted}: {why}")
            raise unprocessable("Service", name, [error])
        return wanted if dry_run else self._reserve(wanted, service)

    def _is_taken(self, address: str, service: Object) -> bool:
        if address in self._taken:
            return True
        key, since = self._held.get(address, (None, 0.0))
        return key not in (None, _key(service)) and self._clock.monotonic() - since < _HELD_S

    def _reserve(self, address: str, service: Object) -> str:
        self._held[address] = (_key(service), self._clock.monotonic())
        return address

    def _free(self, service: Object, dry_run: bool) -> str:
        if dry_run:
            return str(self._net.network_address)
        size = self._net.num_addresses
        for _ in range(64):
            address = str(self._net.network_address + random.randrange(2, size - 1))
            if not self._is_taken(address, service):
                return self._reserve(address, service)
        for offset in range(2, size - 1):
            address = str(self._net.network_address + offset)
            if not self._is_taken(address, service):
                return self._reserve(address, service)
        name = service.get("metadata", {}).get("name", "")
        raise unprocessable("Service", name, [invalid("spec.clusterIPs", [], "range is full")])


def _key(service: Object) -> _Key:
    meta = service.get("metadata") or {}
    return meta.get("namespace", ""), meta.get("name", "")


def _both_prefer(spec: Object, stored: Object) -> bool:
    """Whether a Service that prefers dual-stack keeps type, addresses and families."""
    same = all(spec.get(field) == stored.get(field) for field in ("type", "clusterIPs", "ipFamilies"))
    policies = (spec.get("ipFamilyPolicy"), stored.get("ipFamilyPolicy"))
    return same and policies == ("PreferDualStack", "PreferDualStack")


def _released(spec: Object, stored: Object, policy: str) -> Errors:
    """Removes an unchanged second address or family under the policy SingleStack; releasing one under another policy
    is an error."""
    errors: Errors = []
    for field, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        mine, before = spec.get(field) or [], stored.get(field) or []
        if policy == "SingleStack":
            if mine == before and len(mine) > 1:
                spec[field] = mine[:1]
        elif mine and len(mine) < len(before):
            detail = f"must be 'SingleStack' to release the secondary {what}"
            errors.append(invalid("spec.ipFamilyPolicy", policy, detail))
    return errors


def _addresses(service: Object) -> set[str]:
    spec = service.get("spec") or {}
    found = {spec.get("clusterIP", ""), *(spec.get("clusterIPs") or ())}
    return {address for address in found if address and address != "None"}
