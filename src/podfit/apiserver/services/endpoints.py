"""Resolves a Service: the address behind one of its ports, for webhooks, aggregation and proxies."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.apiserver.storage.objects import Objects

_SERVICE, _ENDPOINTS, _SLICE = kind_named("Service"), kind_named("Endpoints"), kind_named("EndpointSlice")
_OF_SERVICE = "kubernetes.io/service-name"


def reached_at(objects: Objects, namespace: str, name: str, port: int) -> tuple[str, int] | None:
    """Like `endpoint_of`, for servers that administrators register: an external name is accepted, too."""
    spec = (objects.get(_SERVICE, namespace, name) or {}).get("spec") or {}
    if spec.get("type") == "ExternalName" and spec.get("externalName"):
        return str(spec["externalName"]), port
    return endpoint_of(objects, namespace, name, str(port))


def endpoint_of(objects: Objects, namespace: str, name: str, port: str) -> tuple[str, int] | None:
    """Host and port behind a port of a Service, given by number, by name, or as "" for its only port. None if there is
    no endpoint."""
    target = objects.get(_SERVICE, namespace, name)
    if target is None:
        return None
    rows = (target.get("spec") or {}).get("ports") or []
    wanted = next((row for row in rows if port in (str(row.get("port")), row.get("name", ""))), None)
    if wanted is None and not port and len(rows) == 1:
        wanted = rows[0]
    for subset in (objects.get(_ENDPOINTS, namespace, name) or {}).get("subsets") or []:
        addresses, ports = subset.get("addresses") or [], subset.get("ports") or []
        found = [row for row in ports if wanted is None or row.get("name", "") == wanted.get("name", "")]
        if addresses and found:
            return addresses[0]["ip"], found[0]["port"]
    return _in_slices(objects, namespace, name, wanted)


def _in_slices(objects: Objects, namespace: str, name: str, wanted: Object | None) -> tuple[str, int] | None:
    """Looks for the address in EndpointSlices: those that another writer created have no Endpoints."""
    for row in objects.list(_SLICE, namespace):
        if (row["metadata"].get("labels") or {}).get(_OF_SERVICE) != name or row.get("addressType") == "FQDN":
            continue
        ports = [
            port for port in row.get("ports") or [] if wanted is None or port.get("name", "") == wanted.get("name", "")
        ]
        for endpoint in row.get("endpoints") or []:
            ready = (endpoint.get("conditions") or {}).get("ready")
            if ready is not False and endpoint.get("addresses") and ports and ports[0].get("port"):
                return endpoint["addresses"][0], ports[0]["port"]
    return None
