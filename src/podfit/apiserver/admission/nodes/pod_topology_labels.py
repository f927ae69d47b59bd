"""PodTopologyLabels: copies the zone and region labels of a node to the pods that are bound to it."""

from __future__ import annotations

from podfit.api.registry.kinds import NODE
from podfit.apiserver.admission.base import CREATE, Attributes, Cluster, Plugin, meta_of, spec_of

LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


class PodTopologyLabels(Plugin):
    name = "PodTopologyLabels"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == ("", "pods") and attrs.subresource in ("", "binding") and attrs.operation == CREATE

    async def admit(self, attrs: Attributes) -> None:
        assert attrs.object is not None
        if attrs.subresource:
            target = attrs.object.get("target") or {}
            name = target.get("name") if target.get("kind") == "Node" else None
        else:
            name = spec_of(attrs.object).get("nodeName")
        node = self._cluster.get(NODE, "", name) if name else None
        of_node = meta_of(node).get("labels") or {}
        copied = {key: of_node[key] for key in LABELS if key in of_node}
        if copied:
            meta = attrs.object.setdefault("metadata", {})
            meta["labels"] = {**(meta.get("labels") or {}), **copied}
