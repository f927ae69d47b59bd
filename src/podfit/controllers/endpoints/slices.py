"""EndpointSlices of Services with selectors."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE
from podfit.controllers.context import ControllerContext
from podfit.controllers.endpoints.members import Key, Members
from podfit.controllers.endpoints.packing import EndpointGroup, pack, ports_key
from podfit.controllers.endpoints.pods import (
    HEADLESS,
    addresses_of,
    counts,
    hostname_of,
    is_headless,
    is_ready,
    ports_of,
    reference,
)
from podfit.controllers.endpoints.triggers import Triggers, noted
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

CONTROLLER = "endpointslice-controller.k8s.io"
_TOPOLOGY = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode")
"""Annotations that, if on, win over the traffic distribution."""
_SAME_NODE = "PreferSameNode"
_NEAR = ("PreferClose", "PreferSameZone", _SAME_NODE)
_ZONE = "topology.kubernetes.io/zone"
_RESERVED = (SERVICE_NAME, MANAGED_BY, HEADLESS)


class EndpointSliceController:
    name = "endpointslice-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=context.clock)
        self._nodes, slices = context.cache(NODE), context.cache(SLICE)
        self._writer = SliceWriter(context.client, slices, CONTROLLER)
        self._members = Members(context, self._engine.add)
        self._triggers = Triggers()
        self._awaited: dict[str, set[Key]] = {}
        """By the name of an unknown node, the Services with pods on it."""
        slices.subscribe(self._slice_changed)
        self._nodes.subscribe(self._node_changed)

    async def run(self) -> None:
        await self._engine.run()

    def _slice_changed(self, before: Object | None, after: Object | None) -> None:
        for row in (before, after):
            if row is not None and (service := service_of(row, CONTROLLER)):
                self._engine.add((row["metadata"]["namespace"], service))

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        for key in self._awaited.pop((after or before or {})["metadata"]["name"], ()):
            self._engine.add(key)

    async def _reconcile(self, key: Key) -> Result:
        service = self._members.services.get(*key)
        if service is None:
            self._triggers.forget(key)
        spec = (service or {}).get("spec") or {}
        if service is None or spec.get("type") == "ExternalName" or not spec.get("selector"):
            return DONE
        known = self._writer.slices(key)
        if known is None:
            return DONE  # the event of the write enqueues the Service again
        pods = self._members.pods(key)
        plan = pack(self._wanted(key, service, pods), known, _metadata(service))
        changed_at = self._triggers.of(key, service, pods)
        if plan.create or plan.update or plan.delete:
            for row in (*plan.create, *plan.update):
                row["metadata"] = noted(row["metadata"], changed_at)
            await self._writer.write(key, plan)
        return DONE

    def _wanted(self, key: Key, service: Object, pods: Sequence[Object]) -> list[EndpointGroup]:
        groups: list[EndpointGroup] = []
        for family in (service.get("spec") or {}).get("ipFamilies") or ["IPv4"]:
            found: dict[str, EndpointGroup] = {}
            for pod in pods:
                endpoint = self._endpoint(key, service, pod, family)
                if endpoint is not None:
                    _file(found, family, ports_of(service, pod), endpoint)
            groups += found.values() or [EndpointGroup(family, [])]
        return groups

    def _endpoint(self, key: Key, service: Object, pod: Object, family: str) -> Object | None:
        node_name = (pod.get("spec") or {}).get("nodeName") or ""
        addresses = [text for text in addresses_of(pod) if _family(text) == family]
        if not addresses or not counts(pod, terminating=True):
            return None
        spec, node = service.get("spec") or {}, self._nodes.get("", node_name)
        anyway = bool(spec.get("publishNotReadyAddresses"))
        if node is None:
            self._awaited.setdefault(node_name, set()).add(key)
            if not anyway:
                return None
        serving, terminating = is_ready(pod), bool(pod["metadata"].get("deletionTimestamp"))
        endpoint: Object = {
            "addresses": addresses,
            "conditions": {
                "ready": anyway or (serving and not terminating),
                "serving": serving,
                "terminating": terminating,
            },
            "targetRef": reference(pod),
        }
        if node_name:
            endpoint["nodeName"] = node_name
        if zone := (((node or {}).get("metadata") or {}).get("labels") or {}).get(_ZONE):
            endpoint["zone"] = zone
        if endpoint["conditions"]["ready"] and (hints := _hints(endpoint, service)):
            endpoint["hints"] = hints
        if host := hostname_of(pod, service):
            endpoint["hostname"] = host
        return endpoint


def _hints(endpoint: Object, service: Object) -> Object:
    """The hints of an endpoint: for which zones, or which nodes first, it is preferred."""
    notes = service["metadata"].get("annotations") or {}
    by_topology = next((notes[name] for name in _TOPOLOGY if name in notes), "")
    distribution = (service.get("spec") or {}).get("trafficDistribution")
    if distribution not in _NEAR or by_topology in ("Auto", "auto"):
        return {}
    hints: Object = {}
    if zone := endpoint.get("zone"):
        hints["forZones"] = [{"name": zone}]
    if distribution == _SAME_NODE and (node := endpoint.get("nodeName")):
        hints["forNodes"] = [{"name": node}]
    return hints


def _file(groups: dict[str, EndpointGroup], family: str, ports: list[Object], endpoint: Object) -> None:
    """Adds an endpoint to those with the same ports; `groups` are by these."""
    groups.setdefault(repr(ports_key(ports)), EndpointGroup(family, ports)).endpoints.append(endpoint)


def _family(text: str) -> str:
    """The IP family of a valid address."""
    return "IPv6" if ":" in text else "IPv4"


def _metadata(service: Object) -> Object:
    meta = service["metadata"]
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    labels |= {SERVICE_NAME: meta["name"], MANAGED_BY: CONTROLLER}
    return {
        "generateName": prefix_of(meta["name"]),
        "namespace": meta["namespace"],
        "labels": labels,
        "ownerReferences": [owner("v1", "Service", service)],
    }
