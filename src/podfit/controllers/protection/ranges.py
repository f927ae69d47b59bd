"""Protects ServiceCIDRs from deletion while a Service has an address that no other range contains; sets their condition
Ready."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from datetime import datetime

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.controllers.context import ControllerContext
from podfit.controllers.protection.finalizers import Finalizer
from podfit.kit.clock import rfc3339
from podfit.reconcile import DONE, Engine, Requeue, Result

RANGE, SERVICE = kind_named("ServiceCIDR"), kind_named("Service")
_FINALIZER = Finalizer(RANGE, "networking.k8s.io/service-cidr-finalizer")
_GRACE_S = 10.0
"""How long a range is kept after its deletion: until then every server has stopped assigning addresses from it."""
_READY = ("True", "", "Kubernetes Service CIDR is ready")
_KEPT = (
    "False",
    "Terminating",
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
)
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ServiceRangesController:
    name = "service-cidr-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client, self._clock = context.client, context.clock
        self._ranges, self._services = context.cache(RANGE), context.cache(SERVICE)
        self._engine: Engine[str] = Engine(self.name, self._reconcile, clock=context.clock)
        self._ranges.subscribe(self._range_changed)
        self._services.subscribe(self._service_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _range_changed(self, before: Object | None, after: Object | None) -> None:
        if after is not None:
            self._engine.add(after["metadata"]["name"])
        if before is None or after is None:
            # Addresses of this range may be the reason why another one is kept.
            self._add_going()

    def _service_changed(self, before: Object | None, after: Object | None) -> None:
        if _addresses(before) - _addresses(after):
            self._add_going()

    def _add_going(self) -> None:
        for configured in self._ranges:
            if _FINALIZER.held(configured):
                self._engine.add(configured["metadata"]["name"])

    async def _reconcile(self, name: str) -> Result:
        found = self._ranges.get("", name)
        if found is None:
            return DONE
        if not found["metadata"].get("deletionTimestamp"):
            if _FINALIZER.lacking(found):
                await _FINALIZER.add(self._client, found)
            await self._report(found, *_READY)
        elif self._is_needed(found):
            await self._report(found, *_KEPT)
        elif _FINALIZER.held(found):
            left = _GRACE_S - self._since(found["metadata"]["deletionTimestamp"])
            if left > 0:
                return Requeue(left, "no server gives out its addresses by then")
            await _FINALIZER.remove(self._client, found)
        return DONE

    def _since(self, time: str) -> float:
        return self._clock.now() - datetime.fromisoformat(time).timestamp()

    def _is_needed(self, going: Object) -> bool:
        """Whether a Service has an address that no other range contains."""
        name = going["metadata"]["name"]
        others = [
            net
            for configured in self._ranges
            if configured["metadata"]["name"] != name
            for net in networks_of(configured)
        ]
        alone = [net for net in networks_of(going) if not any(_contains(other, net) for other in others)]
        if not alone:
            return False
        taken = (ipaddress.ip_address(text) for service in self._services for text in _addresses(service))
        return any(_among(address, alone) and not _among(address, others) for address in taken)

    async def _report(self, found: Object, status: str, reason: str, message: str) -> None:
        conditions = (found.get("status") or {}).get("conditions") or []
        before: Object = next((condition for condition in conditions if condition["type"] == "Ready"), {})
        reported = {"status": status, "reason": reason, "message": message}
        if all(before.get(field) == value for field, value in reported.items()):
            return
        ready = {"type": "Ready", **reported, "lastTransitionTime": rfc3339(self._clock.now())}
        kept = [condition for condition in conditions if condition["type"] != "Ready"]
        try:
            await self._client.update(RANGE, {**found, "status": {"conditions": [*kept, ready]}}, "status")
        except ApiError as error:
            # Changed or deleted meanwhile: the cache delivers that, and triggers another pass.
            if error.code not in (404, 409):
                raise


def networks_of(service_cidr: Object) -> Iterator[_Network]:
    for text in (service_cidr.get("spec") or {}).get("cidrs") or ():
        yield ipaddress.ip_network(text)


def _contains(outer: _Network, inner: _Network) -> bool:
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def _among(address: ipaddress.IPv4Address | ipaddress.IPv6Address, networks: Iterable[_Network]) -> bool:
    return any(address in network for network in networks)


def _addresses(service: Object | None) -> set[str]:
    """The cluster addresses of a Service."""
    found = ((service or {}).get("spec") or {}).get("clusterIPs") or ()
    return {text for text in found if text and text != "None"}
