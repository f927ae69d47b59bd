"""Endpoints of Services with selectors: the older form, which some clients still read."""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError, is_namespace_going
from podfit.controllers.context import ControllerContext
from podfit.controllers.endpoints.members import Key, Members
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
from podfit.controllers.endpoints.subsets import Subsets
from podfit.controllers.endpoints.triggers import Triggers, noted
from podfit.reconcile import DONE, Engine, Result

ENDPOINTS = kind_named("Endpoints")
MANAGED_BY, MANAGER = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_MOST = 1000


class EndpointsController:
    name = "endpoints-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._engine: Engine[Key] = Engine(self.name, self._reconcile, clock=context.clock)
        self._endpoints = context.cache(ENDPOINTS)
        self._members = Members(context, self._engine.add)
        self._triggers = Triggers()
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
            self._triggers.forget(key)
            if stored is not None and _is_ours(stored):
                await self._attempt(key, "", self._client.delete(ENDPOINTS, *key))
            return DONE
        if spec.get("type") == "ExternalName" or not spec.get("selector"):
            return DONE
        pods = self._members.pods(key)
        wanted, changed_at = _wanted(service, pods), self._triggers.of(key, service, pods)
        if stored is None:
            made = {**wanted, "metadata": noted(wanted["metadata"], changed_at)}
            await self._attempt(key, "none", self._client.create(ENDPOINTS, made, key[0]))
        elif _differs(stored, wanted):
            revision = stored["metadata"]["resourceVersion"]
            kept = {**stored["metadata"], "labels": wanted["metadata"]["labels"]}
            kept["annotations"] = _annotations(stored) | (wanted["metadata"].get("annotations") or {})
            changed = {**stored, "metadata": noted(kept, changed_at), "subsets": wanted["subsets"]}
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


def _wanted(service: Object, pods: Sequence[Object]) -> Object:
    meta, spec = service["metadata"], service.get("spec") or {}
    anyway = bool(spec.get("publishNotReadyAddresses"))
    subsets = Subsets()
    for pod in pods:
        if not counts(pod, terminating=anyway):
            continue
        ports = [_without_empty_name(port) for port in ports_of(service, pod)]
        address = _address(pod, service)
        if address is not None and (ports or (is_headless(service) and not spec.get("ports"))):
            subsets.add(ports, address, anyway or is_ready(pod))
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name != HEADLESS}
    if is_headless(service):
        labels[HEADLESS] = ""
    made: Object = {"name": meta["name"], "namespace": meta["namespace"], "labels": {**labels, MANAGED_BY: MANAGER}}
    found = subsets.packed()
    if _truncate(found):
        made["annotations"] = {_OVER_CAPACITY: "truncated"}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": made, "subsets": found}


def _annotations(stored: Object) -> Object:
    """The annotations of existing Endpoints that this controller does not set, and therefore keeps."""
    notes = stored["metadata"].get("annotations") or {}
    return {name: text for name, text in notes.items() if name != _OVER_CAPACITY}


def _is_ours(endpoints: Object) -> bool:
    return (endpoints["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER


def _without_empty_name(port: Object) -> Object:
    row = {"port": port["port"], "protocol": port["protocol"], **({"name": port["name"]} if port["name"] else {})}
    return {**row, "appProtocol": port["appProtocol"]} if "appProtocol" in port else row


def _address(pod: Object, service: Object) -> Object | None:
    """The address entry of a pod; None if the pod has no address of the Service's family."""
    family = ((service.get("spec") or {}).get("ipFamilies") or ["IPv4"])[0]
    chosen = next((text for text in addresses_of(pod) if (":" in text) == (family == "IPv6")), None)
    if chosen is None:
        return None
    address: Object = {"ip": chosen, "targetRef": reference(pod)}
    if node := (pod.get("spec") or {}).get("nodeName"):
        address["nodeName"] = node
    if host := hostname_of(pod, service):
        address["hostname"] = host
    return address


def _truncate(subsets: list[Object]) -> bool:
    """Sorts addresses and keeps a thousand at most, ready ones first; returns whether some were omitted."""
    room, cut = _MOST, False
    for field in ("addresses", "notReadyAddresses"):
        for subset in subsets:
            rows = sorted(subset.get(field) or (), key=lambda row: (row["ip"], row["targetRef"]["uid"]))
            cut = cut or len(rows) > room
            if rows:
                subset[field] = rows[:room]
                room = max(0, room - len(rows))
            if field in subset and not subset[field]:
                del subset[field]
    return cut


def _differs(stored: Object, wanted: Object) -> bool:
    labels = stored["metadata"].get("labels") != wanted["metadata"]["labels"]
    notes = (stored["metadata"].get("annotations") or {}).get(_OVER_CAPACITY)
    cut = notes != (wanted["metadata"].get("annotations") or {}).get(_OVER_CAPACITY)
    return labels or cut or _canonical(stored.get("subsets")) != _canonical(wanted["subsets"])


def _canonical(subsets: list[Object] | None) -> list[str]:
    fields = ("addresses", "notReadyAddresses", "ports")
    return sorted(
        repr([sorted(repr(sorted(row.items(), key=str)) for row in subset.get(field) or ()) for field in fields])
        for subset in subsets or ()
    )
