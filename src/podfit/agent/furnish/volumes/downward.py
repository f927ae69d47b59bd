"""Evaluates the downward API: fields of the pod as environment variables and files of its containers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import Quantity

_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['(.*)'\]$")


def field_value(pod: Object, path: str, host_ip: str, node_name: str, ips: tuple[str, ...]) -> str:
    """The value of a fieldRef. Raises KeyError for fields that the downward API does not support."""
    meta, spec = pod["metadata"], pod["spec"]
    if match := _SUBSCRIPT.match(path):
        return str((meta.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        return _listed(meta.get(path.partition(".")[2]) or {})
    known = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta.get("namespace") or "default",
        "metadata.uid": meta["uid"],
        "spec.nodeName": node_name,
        "spec.serviceAccountName": spec.get("serviceAccountName") or "",
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "status.podIP": ips[0] if ips else "",
        "status.podIPs": ",".join(ips),
    }
    return str(known[path])


def _listed(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={json.dumps(values[key], ensure_ascii=False)}" for key in sorted(values))


def resource_value(spec: Mapping[str, Any], own: str, ref: Mapping[str, Any], node: Mapping[str, Quantity]) -> str:
    """The value of a resourceFieldRef, for container `own` unless the reference names another; limits default to the
    node's size."""
    name = ref.get("containerName") or own
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    container = next(candidate for candidate in containers if candidate["name"] == name)
    kind, _, resource = str(ref["resource"]).partition(".")
    listed = (container.get("resources") or {}).get(kind) or {}
    if resource in listed:
        quantity = Quantity.parse(listed[resource])
    elif kind == "limits" or resource in ("cpu", "memory"):
        limits = (container.get("resources") or {}).get("limits") or {}
        fallback = Quantity.parse(limits[resource]) if resource in limits else None
        quantity = fallback or (node.get(resource, Quantity(0)) if kind == "limits" else Quantity(0))
    else:
        quantity = Quantity(0)
    divisor = Quantity.parse(ref.get("divisor") or "0")
    unit = divisor.nanos or 10**9
    return str(-(-quantity.nanos // unit))
