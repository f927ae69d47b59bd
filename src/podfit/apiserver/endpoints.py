"""Where a Service's traffic goes: the address behind one of its ports, for webhooks, aggregation and proxies."""

from __future__ import annotations

from podfit.api.kinds import kind_named
from podfit.apiserver.objects import Objects

_SERVICE, _ENDPOINTS = kind_named("Service"), kind_named("Endpoints")


def endpoint_of(objects: Objects, namespace: str, name: str, port: str) -> tuple[str, int] | None:
    """Host and port behind a port of a Service, given by number, by name, or "" for its only one; None: nobody."""
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
    return None
