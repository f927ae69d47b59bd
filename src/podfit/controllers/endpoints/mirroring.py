"""EndpointSlices for Services without a selector: mirrors Endpoints written by others."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.controllers.context import ControllerContext
from podfit.controllers.endpoints.members import Key
from podfit.controllers.endpoints.packing import EndpointGroup, SliceChanges, pack, ports_key
from podfit.controllers.endpoints.writing import (
    MANAGED_BY,
    SERVICE_NAME,
    SLICE,
    SliceWriter,
    owner,
    prefix_of,
    service_of,
)
from podfit.reconcile import DONE, Engine, Result

CONTROLLER = "endpointslicemirroring-controller.k8s.io"
SKIPPED = "endpointslice.kubernetes.io/skip-mirror"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_LEFT_OUT = (
    "endpoints.kubernetes.io/last-change-trigger-time",
    "kubectl.kubernetes.io/last-applied-configuration",
)
_MOST = 1000


class EndpointSliceMirroringController:
    name = "endpointslice-mirroring-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=context.clock)
        self._services, self._endpoints = context.cache(kind_named("Service")), context.cache(kind_named("Endpoints"))
        slices = context.cache(SLICE)
        self._writer = SliceWriter(context.client, slices, CONTROLLER)
        self._services.subscribe(self._changed)
        self._endpoints.subscribe(self._changed)
        slices.subscribe(self._slice_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        self._engine.add((meta["namespace"], meta["name"]))

    def _slice_changed(self, before: Object | None, after: Object | None) -> None:
        for row in (before, after):
            if row is not None and (service := service_of(row, CONTROLLER)):
                self._engine.add((row["metadata"]["namespace"], service))

    async def _reconcile(self, key: Key) -> Result:
        known = self._writer.slices(key)
        if known is None:
            return DONE  # the event of the write enqueues the Service again
        service, endpoints = self._services.get(*key), self._endpoints.get(*key)
        if service is None or (service.get("spec") or {}).get("selector") or not _is_mirrored(endpoints):
            plan = SliceChanges(delete=known)
        else:
            assert endpoints is not None
            plan = pack(_wanted(endpoints), known, _metadata(endpoints), _MOST)
        if plan.create or plan.update or plan.delete:
            await self._writer.write(key, plan)
        return DONE


def _is_mirrored(endpoints: Object | None) -> bool:
    if endpoints is None:
        return False
    meta = endpoints["metadata"]
    labels = meta.get("labels") or {}
    if labels.get(SKIPPED) == "true":
        return False
    return _LEADER not in (meta.get("annotations") or {})


def _wanted(endpoints: Object) -> list[EndpointGroup]:
    groups: list[EndpointGroup] = []
    for subset in endpoints.get("subsets") or ():
        ports = [{"name": "", **port} for port in subset.get("ports") or ()]
        room = _MOST
        for field, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in (subset.get(field) or ())[:room]:
                room -= 1
                _file(groups, ports, address, ready)
    return groups


def _file(groups: list[EndpointGroup], ports: list[Object], address: Object, ready: bool) -> None:
    family = "IPv6" if ":" in address["ip"] else "IPv4"
    endpoint: Object = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
    endpoint |= {field: address[field] for field in ("targetRef", "nodeName", "hostname") if address.get(field)}
    for group in groups:
        if group.family == family and ports_key(group.ports) == ports_key(ports):
            group.endpoints.append(endpoint)
            return
    groups.append(EndpointGroup(family, ports, [endpoint]))


def _metadata(endpoints: Object) -> Object:
    meta = endpoints["metadata"]
    notes = {name: text for name, text in (meta.get("annotations") or {}).items() if name not in _LEFT_OUT}
    return {
        "generateName": prefix_of(meta["name"]),
        "namespace": meta["namespace"],
        "labels": {**(meta.get("labels") or {}), SERVICE_NAME: meta["name"], MANAGED_BY: CONTROLLER},
        **({"annotations": notes} if notes else {}),
        "ownerReferences": [owner("v1", "Endpoints", endpoints)],
    }
