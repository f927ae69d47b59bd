"""Builds discovery documents of groups, versions and resources, in the plain and in the aggregated form.

Documents are built from the registry on demand and cached until it changes (`forget`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, Registry, Subresource
from podfit.apiserver.representation import wire

_CUSTOM_ORDER = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_PRIORITY = (
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
"""The order in which groups are listed; all other groups follow by name."""


class Discovery:
    def __init__(
        self, registry: Registry, address: Callable[[], str], announced: Callable[[Kind], Kind] = lambda kind: kind
    ) -> None:
        """`announced`: a kind as listed for clients that do not request the native form."""
        self._registry, self._address, self._announced = registry, address, announced
        self._made: dict[tuple[str, ...], bytes] = {}
        self.listeners: list[Callable[[], None]] = []
        """Called when the kinds changed."""
        self.foreign: dict[str, Object] = {}
        """Aggregated groups served elsewhere: group -> its APIGroup and, under `resources`, lists by version."""

    def forget(self) -> None:
        self._made.clear()
        for listener in self.listeners:
            listener()

    def document(self, *name: str, native: bool = False) -> bytes | None:
        """`("api",)`, `("apis",)`, `("group", g)`, `("version", g, v)`, `("aggregated", "api" or "apis", version)`."""
        kept = (*name, "native") if native else name
        made = self._made.get(kept)
        if made is None:
            value = self._make(name, native)
            if value is None:
                return None
            made = self._made[kept] = wire.encode(value)
        return made

    def kinds(self, native: bool = False) -> list[Kind]:
        return list(self._registry) if native else [self._announced(kind) for kind in self._registry]

    def _make(self, name: tuple[str, ...], native: bool) -> Object | None:
        if name[0] == "api":
            addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address()}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
        if name[0] == "apis":
            groups = [self._group(group) for group in self.groups()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if name[0] == "group":
            known = name[1] in self.groups()
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name[1])} if known else None
        if name[0] == "version":
            return self._resources(name[1], name[2], native)
        return self._aggregated(name[1], name[2], native)

    # --- plain ----------------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        found = {kind.group for kind in self._registry if kind.group} | set(self.foreign)
        ranked = {group: rank for rank, group in enumerate(_PRIORITY)}
        return sorted(found, key=lambda group: (ranked.get(group, len(ranked)), group))

    def versions(self, group: str) -> list[str]:
        found = {kind.version: None for kind in self._registry if kind.group == group}
        found.update(dict.fromkeys(self.foreign.get(group, {}).get("versions", ())))
        return sorted(found, key=version_rank)

    def _group(self, group: str) -> Object:
        versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in self.versions(group)]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resources(self, group: str, version: str, native: bool) -> Object | None:
        kinds = [kind for kind in self.kinds(native) if (kind.group, kind.version) == (group, version)]
        foreign = self.foreign.get(group, {}).get("resources", {}).get(version)
        if not kinds and foreign is None and (group, version) != ("", "v1"):
            return None
        resources: list[Object] = []
        for kind in sorted(kinds, key=lambda kind: kind.plural):
            resources.append(_resource(kind))
            resources += [_subresource(kind, sub) for sub in kind.subresources]
        return {
            "kind": "APIResourceList",
            **({"apiVersion": "v1"} if group else {}),
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": resources + (foreign or []),
        }

    # --- aggregated -----------------------------------------------------------------------------------------------

    def _aggregated(self, root: str, version: str, native: bool) -> Object:
        groups = [""] if root == "api" else self.groups()
        items = []
        for group in groups:
            versions = [self._aggregated_version(group, word, native) for word in self.versions(group)]
            items.append({"metadata": {"name": group, "creationTimestamp": None}, "versions": versions})
            if not group:
                items[-1]["metadata"] = {"creationTimestamp": None}
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }

    def _aggregated_version(self, group: str, version: str, native: bool) -> Object:
        kinds = [kind for kind in self.kinds(native) if (kind.group, kind.version) == (group, version)]
        resources = [_aggregated_resource(kind) for kind in sorted(kinds, key=lambda kind: kind.plural)]
        for row in self.foreign.get(group, {}).get("resources", {}).get(version, ()):
            if "/" not in row["name"]:
                resources.append(_aggregated_foreign(row))
        return {"version": version, "resources": resources, "freshness": "Current"}


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2, v1, v1beta2, v1beta1, v1alpha1, everything else by name."""
    head, _, tail = version[1:].partition("beta") if "beta" in version else version[1:].partition("alpha")
    if version[:1] != "v" or not head.isdecimal() or (tail and not tail.isdecimal()):
        return (3, 0, 0, version)
    stage = 1 if "beta" in version else 2 if "alpha" in version else 0
    return (stage, -int(head), -int(tail or 0), "")


def _verbs(kind: Kind) -> list[str]:
    return [verb for verb in _CUSTOM_ORDER if verb in kind.verbs] if kind.custom else list(kind.verbs)


def singular(kind: Kind) -> str:
    return kind.singular or kind.kind.lower()


def _resource(kind: Kind) -> Object:
    row: Object = {
        "name": kind.plural,
        "singularName": singular(kind),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _verbs(kind),
    }
    if kind.short:
        row["shortNames"] = list(kind.short)
    if kind.categories:
        row["categories"] = list(kind.categories)
    if "list" in kind.verbs:
        row["storageVersionHash"] = storage_hash(kind)
    return row


def storage_hash(kind: Kind) -> str:
    version = "v2" if kind.group == "autoscaling" and kind.kind == "HorizontalPodAutoscaler" else kind.version
    group, version = ("", "v1") if kind.stored_as == ("", "events") else (kind.group, version)
    digest = hashlib.sha256(f"{group}/{version}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _subresource(kind: Kind, sub: Subresource) -> Object:
    row: Object = {"name": f"{kind.plural}/{sub.name}", "singularName": "", "namespaced": kind.namespaced}
    if sub.group is not None:
        row["group"], row["version"] = sub.group, sub.version
    return {**row, "kind": sub.kind, "verbs": list(sub.verbs)}


def _response_kind(kind: str, group: str = "", version: str = "") -> Object:
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(kind: Kind) -> Object:
    row: Object = {
        "resource": kind.plural,
        "responseKind": _response_kind(kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": singular(kind),
        "verbs": _verbs(kind),
    }
    if kind.short:
        row["shortNames"] = list(kind.short)
    if kind.categories:
        row["categories"] = list(kind.categories)
    if kind.subresources:
        row["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _response_kind(sub.kind, sub.group or "", sub.version or ""),
                "verbs": list(sub.verbs),
            }
            for sub in kind.subresources
        ]
    return row


def _aggregated_foreign(row: dict[str, Any]) -> Object:
    return {
        "resource": row["name"],
        "responseKind": _response_kind(row["kind"]),
        "scope": "Namespaced" if row.get("namespaced") else "Cluster",
        "singularResource": row.get("singularName", ""),
        "verbs": row.get("verbs", []),
    }
