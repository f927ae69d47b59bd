"""The kinds that a server serves, read from its discovery documents."""

from __future__ import annotations

from dataclasses import replace

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, Subresource
from podfit.api.status import ApiError
from podfit.client.rest import Client

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


async def discover(client: Client, preferred_only: bool = True) -> list[Kind]:
    """All kinds with their verbs; only each group's preferred version unless requested otherwise."""
    kinds: list[Kind] = []
    for root in ("/api", "/apis"):
        document = await client.raw("GET", root, headers={"Accept": _AGGREGATED})
        if document.get("kind") == "APIGroupDiscoveryList":
            kinds += _from_aggregated(document, preferred_only)
        else:
            kinds += await _from_legacy(client, document, preferred_only)
    return kinds


def _from_aggregated(document: Object, preferred_only: bool) -> list[Kind]:
    kinds = []
    for item in document.get("items") or []:
        group = (item.get("metadata") or {}).get("name", "")
        versions = item.get("versions") or []
        for version in versions[:1] if preferred_only else versions:
            for resource in version.get("resources") or []:
                kinds.append(_aggregated_kind(group, version["version"], resource))
    return kinds


def _aggregated_kind(group: str, version: str, resource: Object) -> Kind:
    subresources = tuple(
        Subresource(sub["subresource"], (sub.get("responseKind") or {}).get("kind", ""), tuple(sub.get("verbs") or ()))
        for sub in resource.get("subresources") or []
    )
    return Kind(
        group,
        version,
        (resource.get("responseKind") or {}).get("kind", ""),
        resource["resource"],
        resource.get("scope") == "Namespaced",
        tuple(resource.get("shortNames") or ()),
        tuple(resource.get("categories") or ()),
        subresources,
        tuple(resource.get("verbs") or ()),
        singular=resource.get("singularResource", ""),
    )


async def _from_legacy(client: Client, document: Object, preferred_only: bool) -> list[Kind]:
    if document.get("kind") == "APIVersions":
        return await _legacy_version(client, "", "v1")
    kinds: list[Kind] = []
    for group in document.get("groups") or []:
        versions = group.get("versions") or []
        preferred = (group.get("preferredVersion") or {}).get("version")
        for version in versions:
            if not preferred_only or version["version"] == preferred:
                kinds += await _legacy_version(client, group["name"], version["version"])
    return kinds


async def _legacy_version(client: Client, group: str, version: str) -> list[Kind]:
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    try:
        document = await client.raw("GET", path)
    except ApiError:
        # An aggregated API whose server is down must not hide all others.
        return []
    kinds: dict[str, Kind] = {}
    below: dict[str, list[Subresource]] = {}
    for resource in document.get("resources") or []:
        name, _, sub = resource["name"].partition("/")
        if sub:
            below.setdefault(name, []).append(Subresource(sub, resource["kind"], tuple(resource.get("verbs") or ())))
        else:
            kinds[name] = Kind(
                group,
                version,
                resource["kind"],
                name,
                bool(resource.get("namespaced")),
                tuple(resource.get("shortNames") or ()),
                tuple(resource.get("categories") or ()),
                (),
                tuple(resource.get("verbs") or ()),
                singular=resource.get("singularName", ""),
            )
    return [_with(kind, tuple(below.get(name, ()))) for name, kind in kinds.items()]


def _with(kind: Kind, subresources: tuple[Subresource, ...]) -> Kind:
    return replace(kind, subresources=subresources)
