"""NodeDeclaredFeatureValidator: rejects changes of a bound pod that need features its node does not declare."""

from __future__ import annotations

from typing import Any

from podfit.api.pods.resources import is_sidecar
from podfit.api.registry.kinds import NODE
from podfit.apiserver.admission.base import UPDATE, Attributes, Cluster, Plugin, spec_of

POD_LEVEL = "InPlacePodLevelResourcesVerticalScaling"
INIT_CONTAINERS = "InPlacePodVerticalScalingInitContainers"


class NodeDeclaredFeatureValidator(Plugin):
    name = "NodeDeclaredFeatureValidator"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == ("", "pods") and attrs.subresource in ("", "resize") and attrs.operation == UPDATE

    async def validate(self, attrs: Attributes) -> None:
        spec = spec_of(attrs.object)
        node_name = spec.get("nodeName")
        needed = features_needed(spec_of(attrs.old), spec) if node_name else []
        if not needed:
            return
        node = self._cluster.get(NODE, "", str(node_name))
        if node is None:
            raise attrs.forbid(f'node "{node_name}" not found')
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        missing = [feature for feature in needed if feature not in declared]
        if missing:
            raise attrs.forbid(
                f'pod update requires features {", ".join(missing)} which are not available on node "{node_name}"'
            )


def features_needed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The features that a node needs for the change from one spec to the other, sorted."""
    needed = []
    if (old.get("resources") or {}) != (new.get("resources") or {}):
        needed.append(POD_LEVEL)
    before = {container.get("name"): container for container in old.get("initContainers") or ()}
    for container in new.get("initContainers") or ():
        previous = before.get(container.get("name"))
        if previous is None or is_sidecar(container):
            continue
        if (previous.get("resources") or {}) != (container.get("resources") or {}):
            needed.append(INIT_CONTAINERS)
            break
    return needed
