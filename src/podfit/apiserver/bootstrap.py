"""Creates the initial objects of a cluster: namespaces, priority classes, roles, the Service `kubernetes`, definitions.

Only missing objects are written, so a second start writes nothing. Permissions missing from default roles and bindings
are restored, and the server's endpoints are updated if its address changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, Registry
from podfit.apiserver.auth.certs.pki import Pki
from podfit.apiserver.auth.roles import bootstrap_roles, role_update
from podfit.apiserver.strategy.flows import schemas as flows
from podfit.apiserver.strategy.flows.mandatory import defaults, revised
from podfit.apiserver.writing.writes import Writer

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES = (
    (
        "system-node-critical",
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
)


async def create_missing(writer: Writer, registry: Registry, objects: Iterable[Object]) -> None:
    """Creates missing objects concurrently, so that the writes share a commit."""
    await asyncio.gather(*(_create(writer, registry, obj) for obj in objects))


async def _create(writer: Writer, registry: Registry, obj: Object) -> None:
    kind = registry.of(obj["apiVersion"], obj["kind"])
    assert kind is not None, obj["kind"]
    meta = obj["metadata"]
    namespace = meta.get("namespace", "") if kind.namespaced else ""
    record = writer.objects.record(kind, namespace, meta["name"])
    if record is None:
        await writer.install(kind, namespace, obj)
        return
    found = writer.objects.decoded(record)
    if kind.group == role_update.GROUP and role_update.is_replaced(found, obj):
        await writer.objects.store.delete(record.key, record.modified)
        await writer.install(kind, namespace, obj)
        return
    completed = _completed(kind, found, obj)
    if completed is not None:
        await writer.objects.put(kind, kind.key(namespace, meta["name"]), completed, record.modified)


def _completed(kind: Kind, found: Object, wanted: Object) -> Object | None:
    """An existing object with what it lacks, such as permissions of roles or the address of this server; None if it is
    up to date."""
    if kind.group == role_update.GROUP:
        return role_update.completed(found, wanted)
    if kind.kind == "Endpoints" and wanted["subsets"][0] not in (found.get("subsets") or ()):
        labels = {**(found["metadata"].get("labels") or {}), **wanted["metadata"]["labels"]}
        return {**found, "metadata": {**found["metadata"], "labels": labels}, "subsets": wanted["subsets"]}
    if kind.group == flows.GROUP:
        return revised(found, wanted)
    if kind.kind == "EndpointSlice" and (found.get("endpoints"), found.get("ports")) != (
        wanted["endpoints"],
        wanted["ports"],
    ):
        return {**found, "endpoints": wanted["endpoints"], "ports": wanted["ports"]}
    if kind.kind == "CustomResourceDefinition":
        return _newer_definition(found, wanted)
    return None


def _newer_definition(found: Object, wanted: Object) -> Object | None:
    """Updates a definition that an older version installed, if no user has changed it since."""
    meta = found["metadata"]
    notes, generation = meta.get("annotations") or {}, meta.get("generation", 1)
    if str(generation) != notes.get(_INSTALLED, "1") or _schemas(found) == _schemas(wanted):
        return None
    noted = {**meta, "generation": generation + 1, "annotations": {**notes, _INSTALLED: str(generation + 1)}}
    return {**found, "metadata": noted, "spec": wanted["spec"]}


_INSTALLED = "podfit.dev/installed-generation"
"""Annotation on a definition: the generation that the API server itself wrote; a later one means that a user changed
it."""


def _schemas(definition: Object) -> dict[str, Object]:
    return {version["name"]: version.get("schema") for version in definition["spec"]["versions"]}


def namespaces() -> Iterator[Object]:
    for name in NAMESPACES:
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def priority_classes() -> Iterator[Object]:
    for name, value, text in _PRIORITIES:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": text,
        }


def roles(nodes_allocate: bool = False) -> Iterator[Object]:
    yield from bootstrap_roles.cluster_roles(nodes_allocate)
    yield from bootstrap_roles.cluster_role_bindings()
    yield from bootstrap_roles.roles()
    yield from bootstrap_roles.role_bindings()


def kubernetes_service(address: str, host: str, port: int) -> Iterator[Object]:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    meta = {"name": "kubernetes", "namespace": "default"}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**meta, "labels": labels},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {**meta, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
    }
    yield {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**meta, "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv6" if ":" in host else "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "protocol": "TCP", "port": port}],
    }


def flow_control() -> Iterator[Object]:
    for obj in defaults():
        yield {**obj, "metadata": dict(obj["metadata"])}


def service_cidr(cidr: str, now: str) -> Iterator[Object]:
    """The ServiceCIDR object for the configured range."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now, "reason": ""}
    yield {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes", "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
        "spec": {"cidrs": [cidr]},
        "status": {"conditions": [{**ready, "message": "Kubernetes Service CIDR is ready"}]},
    }


def extension_authentication(pki: Pki) -> Iterator[Object]:
    """The ConfigMap from which aggregated servers learn how to authenticate this server and its users."""
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": pki.ca.decode(),
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-client-ca-file": pki.front_proxy.pem.decode(),
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-username-headers": '["X-Remote-User"]',
        },
    }


def vpa_definitions() -> Iterator[Object]:
    folder = Path(__file__).with_name("definitions")
    for name in ("verticalpodautoscalers.json", "verticalpodautoscalercheckpoints.json"):
        yield msgspec.json.decode(folder.joinpath(name).read_bytes())
