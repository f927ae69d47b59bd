"""What makes metrics.k8s.io known to a cluster: its APIService and the role that lets users read it."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

from podfit.api.kinds import kind_named
from podfit.api.status import ApiError, Object
from podfit.client.rest import Client
from podfit.meter.api import GROUP, VERSION

_API_SERVICE, _CLUSTER_ROLE = kind_named("APIService"), kind_named("ClusterRole")
_CONFIG_MAP = kind_named("ConfigMap")
NAME = f"{VERSION}.{GROUP}"


def role() -> Object:
    words = ("admin", "edit", "view")
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{word}": "true" for word in words}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:aggregated-metrics-reader", "labels": labels},
        "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
    }


@dataclass(frozen=True)
class Remote:
    """Where the API server finds a meter that is another process."""

    url: str
    ca: bytes
    service: str = "podfit-meter"
    namespace: str = "kube-system"


def api_service(remote: Remote | None = None) -> Object:
    """Without `remote` the group is answered by the API server's own process."""
    meta: Object = {"name": NAME}
    spec: Object = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100}
    if remote is not None:
        meta["annotations"] = {"podfit.dev/url": remote.url}
        spec["service"] = {"namespace": remote.namespace, "name": remote.service, "port": 443}
        spec["caBundle"] = base64.b64encode(remote.ca).decode()
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": meta, "spec": spec}


async def register(client: Client, remote: Remote | None = None) -> None:
    """Creates what is missing; an APIService that says something else is set right."""
    for kind, body in ((_CLUSTER_ROLE, role()), (_API_SERVICE, api_service(remote))):
        try:
            await client.create(kind, body)
        except ApiError as error:
            if error.code != 409:
                raise
            if kind is _API_SERVICE:
                annotations = {"podfit.dev/url": remote.url if remote is not None else None}
                where = {"service": None, "caBundle": None, **body["spec"]}
                await client.patch(kind, "", NAME, {"metadata": {"annotations": annotations}, "spec": where})


@dataclass(frozen=True)
class FrontProxy:
    """Whom an aggregated server trusts to speak for users."""

    ca: bytes
    names: frozenset[str]


async def front_proxy(client: Client) -> FrontProxy:
    """As the cluster publishes it for aggregated servers."""
    data = (await client.get(_CONFIG_MAP, "kube-system", "extension-apiserver-authentication")).get("data") or {}
    names = msgspec.json.decode(data.get("requestheader-allowed-names") or "[]")
    return FrontProxy((data.get("requestheader-client-ca-file") or "").encode(), frozenset(names))
