"""A pod's contribution to a Service: whether it counts, its addresses, the numbers of its ports. Pure."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Any

from podfit.api.objects import Object

HEADLESS = "service.kubernetes.io/headless"
ENDED = ("Failed", "Succeeded")


def is_ready(pod: Object) -> bool:
    rows = (pod.get("status") or {}).get("conditions") or ()
    return any(row.get("type") == "Ready" and row.get("status") == "True" for row in rows)


def counts(pod: Object, terminating: bool) -> bool:
    """Whether a pod belongs to endpoints. `terminating`: also while it is being deleted."""
    status = pod.get("status") or {}
    if status.get("phase") in ENDED or not addresses_of(pod):
        return False
    return terminating or not pod["metadata"].get("deletionTimestamp")


def addresses_of(pod: Object) -> list[str]:
    """The addresses at which others reach a pod. Pods that share the loopback of their machine have none: endpoints
    must not contain loopback addresses."""
    status = pod.get("status") or {}
    found = [row.get("ip") or "" for row in status.get("podIPs") or ()] or [status.get("podIP") or ""]
    return [text for text in found if _reachable(text)]


@lru_cache(maxsize=4096)
def _reachable(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast)


def relevant(pod: Object) -> tuple[Any, ...]:
    """The fields of a pod that endpoints depend on. Other changes are ignored."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    return (
        meta.get("labels"),
        bool(meta.get("deletionTimestamp")),
        spec.get("nodeName"),
        spec.get("hostname"),
        spec.get("subdomain"),
        status.get("phase") in ENDED,
        addresses_of(pod),
        is_ready(pod),
    )


def is_headless(service: Object) -> bool:
    return (service.get("spec") or {}).get("clusterIP") in (None, "", "None")


def hostname_of(pod: Object, service: Object) -> str:
    """The pod's DNS name below the Service's own."""
    spec = pod.get("spec") or {}
    return str(spec.get("hostname") or "") if spec.get("subdomain") == service["metadata"]["name"] else ""


def reference(pod: Object) -> Object:
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


def ports_of(service: Object, pod: Object) -> list[Object]:
    """The ports of a Service with their numbers in a pod. A name that no container has is omitted."""
    found: list[Object] = []
    for port in (service.get("spec") or {}).get("ports") or ():
        number = _number(port, pod)
        if number is not None:
            row = {"name": port.get("name", ""), "protocol": port.get("protocol", "TCP"), "port": number}
            found.append({**row, "appProtocol": port["appProtocol"]} if port.get("appProtocol") else row)
    return found


def _number(port: Object, pod: Object) -> int | None:
    target, protocol = port.get("targetPort"), port.get("protocol", "TCP")
    if isinstance(target, int):
        return target
    spec = pod.get("spec") or {}
    sidecars = [row for row in spec.get("initContainers") or () if row.get("restartPolicy") == "Always"]
    for container in (*(spec.get("containers") or ()), *sidecars):
        for row in container.get("ports") or ():
            if row.get("name") == target and row.get("protocol", "TCP") == protocol:
                return int(row["containerPort"])
    return None
