"""Registers metrics.k8s.io with a cluster: its APIService, the Service behind it, and the role for its readers."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.meter.api import GROUP, VERSION
from podfit.meter.placement import Place, settle

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
    """A meter in another process: its address, and the authority of its certificate."""

    url: str
    ca: bytes


def api_service(remote: Remote | None = None) -> Object:
    """The APIService. Without `remote` the API server's own process serves the group."""
    spec: Object = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100}
    if remote is not None:
        place = Place.of(remote.url)
        spec["service"] = {"namespace": place.namespace, "name": place.name, "port": place.service_port}
        spec["caBundle"] = base64.b64encode(remote.ca).decode()
    meta = {"name": NAME}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": meta, "spec": spec}


async def register(client: Client, remote: Remote | None = None) -> None:
    """Creates missing objects, and updates the APIService if it differs."""
    if remote is not None:
        await settle(client, Place.of(remote.url))
    if await client.find(_CLUSTER_ROLE, "", role()["metadata"]["name"]) is None:
        await _create(client, _CLUSTER_ROLE, role())
    body = api_service(remote)
    if not await _create(client, _API_SERVICE, body):
        # The annotation is from versions without the Service.
        annotations = {"podfit.dev/url": None}
        where = {"service": None, "caBundle": None, **body["spec"]}
        await client.patch(_API_SERVICE, "", NAME, {"metadata": {"annotations": annotations}, "spec": where})


async def _create(client: Client, kind: Kind, body: Object) -> bool:
    """Creates an object; returns False if it exists already."""
    try:
        await client.create(kind, body)
    except ApiError as error:
        if error.code != 409:
            raise
        return False
    return True


@dataclass(frozen=True)
class FrontProxy:
    """The client that an aggregated server trusts to act for users."""

    ca: bytes
    names: frozenset[str]


async def front_proxy(client: Client) -> FrontProxy:
    """Reads the front proxy's settings, which the cluster publishes for aggregated servers."""
    data = (await client.get(_CONFIG_MAP, "kube-system", "extension-apiserver-authentication")).get("data") or {}
    names = msgspec.json.decode(data.get("requestheader-allowed-names") or "[]")
    return FrontProxy((data.get("requestheader-client-ca-file") or "").encode(), frozenset(names))
