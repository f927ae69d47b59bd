"""Endpoints of Services with selectors: the older form, which some clients still read."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError, is_namespace_going
from podfit.controllers.endpoints.members import Key, Members
from podfit.controllers.endpoints.packing import ports_key
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
from podfit.controllers.world import World
from podfit.reconcile import DONE, Engine, Result

ENDPOINTS = kind_named("Endpoints")
MANAGED_BY, MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_MOST = 1000


class EndpointsController:
    name = "endpoints-controller"

    def __init__(self, world: World) -> None:
        self._client = world.client
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=world.clock)
        self._endpoints = world.cache(ENDPOINTS)
        self._members = Members(world, self._engine.add)
        self._endpoints.subscribe(self._changed)
        self._written: dict[Key, str] = {}
        """resourceVersions of Endpoints before their last write: while the cache shows one, it lags behind."""

    async def run(self) -> None:
        await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        self._engine.add((meta["namespace"], meta["name"]))

    async def _reconcile(self, key: Key) -> Result:
        service, stored = self._members.services.get(*key), self._endpoints.get(*key)
        if self._lags(key, stored):
            return DONE  # the event of the write enqueues the Service again
        spec = (service or {}).get("spec") or {}
        if service is None:
            if stored is not None and _is_ours(stored):
                await self._attempt(key, "", self._client.delete(ENDPOINTS, *key))
            return DONE
        if spec.get("type") == "ExternalName" or not spec.get("selector"):
            return DONE
        wanted = self._wanted(key, service)
        if stored is None:
            await self._attempt(key, "none", self._client.create(ENDPOINTS, wanted, key[0]))
        elif _differs(stored, wanted):
            kept = {**stored["metadata"], "labels": wanted["metadata"]["labels"]}
            revision = stored["metadata"]["resourceVersion"]
            changed = {**stored, "metadata": kept, "subsets": wanted["subsets"]}
            await self._attempt(key, revision, self._client.update(ENDPOINTS, changed))
        return DONE

    def _lags(self, key: Key, stored: Object | None) -> bool:
        before = self._written.get(key)
        now = "none" if stored is None else stored["metadata"].get("resourceVersion")
        if before is not None and before == now:
            return True
        self._written.pop(key, None)
        return False

    async def _attempt(self, key: Key, before: str, write: object) -> None:
        try:
            await write  # type: ignore[misc]
            if before:
                self._written[key] = before
        except ApiError as error:
            if error.code != 404 and not is_namespace_going(error):
                raise

    def _wanted(self, key: Key, service: Object) -> Object:
        meta, spec = service["metadata"], service.get("spec") or {}
        anyway = bool(spec.get("publishNotReadyAddresses"))
        subsets: list[Object] = []
        for pod in self._members.pods(key):
            if not counts(pod, terminating=anyway):
                continue
            ports = [_without_empty_name(port) for port in ports_of(service, pod)]
            if ports or (is_headless(service) and not spec.get("ports")):
                _file(subsets, ports, _address(pod, service), anyway or is_ready(pod))
        labels = {name: value for name, value in (meta.get("labels") or {}).items() if name != HEADLESS}
        if is_headless(service):
            labels[HEADLESS] = ""
        made: Object = {"name": meta["name"], "namespace": meta["namespace"], "labels": {**labels, MANAGED_BY: MANAGER}}
        if _truncate(subsets):
            made["annotations"] = {_OVER_CAPACITY: "truncated"}
        return {"apiVersion": "v1", "kind": "Endpoints", "metadata": made, "subsets": subsets}


def _is_ours(endpoints: Object) -> bool:
    return (endpoints["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER


def _without_empty_name(port: Object) -> Object:
    row = {"port": port["port"], "protocol": port["protocol"], **({"name": port["name"]} if port["name"] else {})}
    return {**row, "appProtocol": port["appProtocol"]} if "appProtocol" in port else row


def _address(pod: Object, service: Object) -> Object:
    family = ((service.get("spec") or {}).get("ipFamilies") or ["IPv4"])[0]
    texts = addresses_of(pod)
    chosen = next((text for text in texts if (":" in text) == (family == "IPv6")), texts[0])
    address: Object = {"ip": chosen, "targetRef": reference(pod)}
    if node := (pod.get("spec") or {}).get("nodeName"):
        address["nodeName"] = node
    if host := hostname_of(pod, service):
        address["hostname"] = host
    return address


def _file(subsets: list[Object], ports: list[Object], address: Object, ready: bool) -> None:
    field = "addresses" if ready else "notReadyAddresses"
    for subset in subsets:
        if ports_key(subset.get("ports")) == ports_key(ports):
            break
    else:
        subset = {"ports": ports} if ports else {}
        subsets.append(subset)
    rows = [*subset.get(field, ()), address]
    subset[field] = sorted(rows, key=lambda row: (row["ip"], row["targetRef"]["uid"]))


def _truncate(subsets: list[Object]) -> bool:
    """At most a thousand addresses, ready ones first; returns whether some were omitted."""
    room, cut = _MOST, False
    for field in ("addresses", "notReadyAddresses"):
        for subset in subsets:
            rows = subset.get(field) or []
            cut = cut or len(rows) > room
            if rows:
                subset[field] = rows[:room]
                room = max(0, room - len(rows))
            if field in subset and not subset[field]:
                del subset[field]
    return cut


def _differs(stored: Object, wanted: Object) -> bool:
    labels = stored["metadata"].get("labels") != wanted["metadata"]["labels"]
    return labels or _canonical(stored.get("subsets")) != _canonical(wanted["subsets"])


def _canonical(subsets: list[Object] | None) -> list[str]:
    fields = ("addresses", "notReadyAddresses", "ports")
    return sorted(
        repr([sorted(repr(sorted(row.items(), key=str)) for row in subset.get(field) or ()) for field in fields])
        for subset in subsets or ()
    )
