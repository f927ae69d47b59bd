"""PodResizeValidator: rejects a resize that can never fit on the pod's node. Disabled by default.

Without it the node's agent reports such a resize as infeasible; with it the client gets an error immediately.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.resources import CPU, MEMORY, amounts, pod_requests
from podfit.api.registry.kinds import NODE
from podfit.apiserver.admission.base import UPDATE, Attributes, Cluster, Plugin, meta_of, spec_of


class PodResizeValidator(Plugin):
    name = "PodResizeValidator"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == ("", "pods") and attrs.subresource in ("", "resize") and attrs.operation == UPDATE

    async def validate(self, attrs: Attributes) -> None:
        assert attrs.object is not None
        if not attrs.subresource and not attrs.resizes:
            return
        node_name = spec_of(attrs.object).get("nodeName")
        # With an unchanged generation, nothing was resized.
        if not node_name or meta_of(attrs.object).get("generation") == meta_of(attrs.old).get("generation"):
            return
        node = self._cluster.get(NODE, "", node_name)
        if node is None:
            raise attrs.forbid(f'node "{node_name}" not found')
        system = (meta_of(node).get("labels") or {}).get("kubernetes.io/os")
        if system is not None and system != "linux":
            raise attrs.forbid(
                f'pod resize is only supported on linux nodes, node "{node_name}" is "{system}"',
                [{"reason": "UnsupportedPlatform"}],
            )
        shortfalls = _shortfalls(attrs.object, node)
        if shortfalls:
            raise attrs.forbid(
                "node didn't have enough allocatable resources: " + "; ".join(shortfalls),
                [{"reason": "NodeCapacity"}],
            )


def _shortfalls(pod: Object, node: Object) -> list[str]:
    requested = pod_requests(pod)
    allocatable = amounts((node.get("status") or {}).get("allocatable"))
    found = []
    for resource in (CPU, MEMORY):
        want, have = requested.get(resource), allocatable.get(resource)
        wanted = 0 if want is None else want.milli if resource == CPU else want.value
        offered = 0 if have is None else have.milli if resource == CPU else have.value
        if wanted > offered:
            found.append(f"{resource}, requested: {wanted}, allocatable: {offered}")
    return found
