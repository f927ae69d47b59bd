"""NodeRestriction: a node may change its own Node, Lease and pods, and nothing of other nodes.

The Node authorizer decides by names and verbs alone; decisions that need the objects themselves are made here.
"""

from __future__ import annotations

import base64
from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.migrations import moving
from podfit.api.pods.pod_references import referenced
from podfit.api.registry.kinds import NODE, POD
from podfit.api.status import not_found
from podfit.apiserver.admission.base import (
    CONNECT,
    CREATE,
    DELETE,
    UPDATE,
    Attributes,
    Cluster,
    Plugin,
    annotations_of,
    meta_of,
    spec_of,
)
from podfit.apiserver.admission.nodes.node_labels import forbidden_labels
from podfit.apiserver.admission.pods.pod_resource_allocation import only_resizable
from podfit.apiserver.auth.certs.certificates import subject_of_request
from podfit.apiserver.auth.node import node_name_of

MIRROR = "kubernetes.io/config.mirror"
_RESTRICTED = frozenset(
    {
        ("", "pods"),
        ("", "nodes"),
        ("", "persistentvolumeclaims"),
        ("", "serviceaccounts"),
        ("coordination.k8s.io", "leases"),
        ("certificates.k8s.io", "certificatesigningrequests"),
    }
)


_NODE_SIGNERS = frozenset(("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"))


class NodeRestriction(Plugin):
    name = "NodeRestriction"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handles(self, attrs: Attributes) -> bool:
        return attrs.operation != CONNECT and attrs.resource in _RESTRICTED

    async def admit(self, attrs: Attributes) -> None:
        node = node_name_of(attrs.user)
        if node is None:
            return
        if not node:
            raise attrs.forbid(f'could not determine node from user "{attrs.user.name}"')
        match attrs.kind.plural:
            case "pods":
                self._pod(node, attrs)
            case "nodes":
                _node(node, attrs)
            case "leases":
                _lease(node, attrs)
            case "serviceaccounts":
                self._token(node, attrs)
            case "persistentvolumeclaims":
                _claim(node, attrs)
            case "certificatesigningrequests":
                _certificate_request(node, attrs)

    def _pod(self, node: str, attrs: Attributes) -> None:
        match attrs.subresource, attrs.operation:
            case "", "CREATE":
                self._mirror_pod(node, attrs)
            case "", "DELETE":
                if self._node_of(attrs) != node:
                    raise attrs.forbid(f'node "{node}" can only delete pods with spec.nodeName set to itself')
            case "", "UPDATE" if attrs.dialect is not None and attrs.dialect.allocated_in_spec:
                _allocation(node, attrs)
            case "", _:
                raise attrs.forbid(
                    f'unexpected operation "{attrs.operation}", node "{node}" can only create and delete mirror pods'
                )
            case "status", "UPDATE":
                _pod_status(node, attrs)
            case "eviction", "CREATE":
                if self._node_of(attrs) != node:
                    raise attrs.forbid(f"node {node} can only evict pods with spec.nodeName set to itself")
            case "migrate", "CREATE":
                # A migrating pod has two nodes: which of them may report this step is decided from the pod itself.
                return
            case (("status" | "eviction"), _):
                raise attrs.forbid(f'unexpected operation "{attrs.operation}"')
            case _:
                raise attrs.forbid(
                    f"unexpected pod subresource \"{attrs.subresource}\", only 'status' and 'eviction' are allowed"
                )

    def _node_of(self, attrs: Attributes) -> str:
        pod = self._cluster.get(POD, attrs.namespace, attrs.display_name)
        if pod is None:
            raise not_found("pods", attrs.display_name)
        return str(spec_of(pod).get("nodeName") or "")

    def _mirror_pod(self, node: str, attrs: Attributes) -> None:
        assert attrs.object is not None
        spec = spec_of(attrs.object)
        if MIRROR not in annotations_of(attrs.object):
            raise attrs.forbid(f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods')
        if spec.get("nodeName") != node:
            raise attrs.forbid(f'node "{node}" can only create pods with spec.nodeName set to itself')
        self._owner(node, attrs, meta_of(attrs.object).get("ownerReferences") or [])
        try:
            found = referenced(attrs.object)
        except ValueError as error:
            raise attrs.forbid(f"error checking mirror pod for API references: {error}") from None
        if found:
            raise attrs.forbid(f'node "{node}" can not create pods that reference {found}')

    def _owner(self, node: str, attrs: Attributes, owners: list[Object]) -> None:
        rule = f'node "{node}" can only create pods with'
        if len(owners) > 1:
            raise attrs.forbid(f"{rule} a single owner reference set to itself")
        owner = owners[0] if owners else {}
        if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
            raise attrs.forbid(f"{rule} an owner reference set to itself")
        if not owner.get("controller"):
            raise attrs.forbid(f"{rule} a controller owner reference set to itself")
        if owner.get("blockOwnerDeletion"):
            raise attrs.forbid(f'node "{node}" must not set blockOwnerDeletion on an owner reference')
        found = self._cluster.get(NODE, "", node)
        if found is None:
            raise not_found("nodes", node)
        uid = meta_of(found).get("uid")
        if owner.get("uid") != uid:
            raise attrs.forbid(f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}")

    def _token(self, node: str, attrs: Attributes) -> None:
        if attrs.operation != CREATE or attrs.subresource != "token":
            return
        ref = spec_of(attrs.object).get("boundObjectRef") or {}
        if ref.get("apiVersion") != "v1" or ref.get("kind") != "Pod" or not ref.get("name"):
            raise attrs.forbid("node requested token not bound to a pod")
        if not ref.get("uid"):
            raise attrs.forbid("node requested token with a pod binding without a uid")
        pod = self._cluster.get(POD, attrs.namespace, ref["name"])
        if pod is None:
            raise not_found("pods", ref["name"])
        if ref["uid"] != meta_of(pod).get("uid"):
            raise attrs.forbid(
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        coming = moving(pod)
        if spec_of(pod).get("nodeName") != node and (coming is None or coming.target != node):
            raise attrs.forbid("node requested token bound to a pod scheduled on a different node")
        _check_audience(attrs, spec_of(pod))


def _check_audience(attrs: Attributes, pod_spec: dict[str, Any]) -> None:
    """A node can get tokens only for audiences that the pod's volumes name, so that it cannot impersonate the pod
    elsewhere.
    """
    requested = spec_of(attrs.object).get("audiences") or [""]
    if len(requested) > 1:
        raise attrs.forbid("node may only request 0 or 1 audiences")
    named = {
        (source.get("serviceAccountToken") or {}).get("audience", "")
        for volume in pod_spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
        if source.get("serviceAccountToken")
    }
    if requested[0] not in named:
        raise attrs.forbid(
            f'audience "{requested[0]}" not found in pod spec volume, {attrs.user.name} is not authorized to request '
            "tokens for this audience"
        )


def _allocation(node: str, attrs: Attributes) -> None:
    """In the design of 2020, a node may update a pod only to write the cpu and memory that it has allocated."""
    assert attrs.object is not None and attrs.old is not None
    if spec_of(attrs.old).get("nodeName") != node:
        raise attrs.forbid(f'node "{node}" can only update pods with spec.nodeName set to itself')
    if spec_of(attrs.object) != spec_of(attrs.old) or _described(attrs.object) != _described(attrs.old):
        raise attrs.forbid(f'node "{node}" can only update the field resourcesAllocated of containers')
    if not only_resizable(attrs):
        raise attrs.forbid(f'node "{node}" can only update resourcesAllocated for cpu and memory')


def _described(pod: Object) -> Object:
    ignored = ("resourceVersion", "managedFields", "generation")
    return {key: value for key, value in meta_of(pod).items() if key not in ignored and value}


def _pod_status(node: str, attrs: Attributes) -> None:
    if spec_of(attrs.old).get("nodeName") != node:
        raise attrs.forbid(f'node "{node}" can only update pod status for pods with spec.nodeName set to itself')
    if (meta_of(attrs.old).get("labels") or {}) != (meta_of(attrs.object).get("labels") or {}):
        raise attrs.forbid(f'node "{node}" cannot update labels through pod status')
    if _claim_statuses(attrs.old) != _claim_statuses(attrs.object):
        raise attrs.forbid(f'node "{node}" cannot update resource claim statues')
    if _extended_claim(attrs.old) != _extended_claim(attrs.object):
        raise attrs.forbid(f'node "{node}" cannot update extended resource claim status')


def _claim_statuses(pod: Object | None) -> list[tuple[Any, Any]]:
    rows = ((pod or {}).get("status") or {}).get("resourceClaimStatuses") or ()
    return [(row.get("name"), row.get("resourceClaimName")) for row in rows]


def _extended_claim(pod: Object | None) -> Any:
    return ((pod or {}).get("status") or {}).get("extendedResourceClaimStatus")


def _certificate_request(node: str, attrs: Attributes) -> None:
    """Only the node itself may request a certificate in its name. The signer checks everything else about a request."""
    spec = spec_of(attrs.object)
    if attrs.operation != CREATE or spec.get("signerName") not in _NODE_SIGNERS:
        return
    try:
        name, _ = subject_of_request(base64.b64decode(spec.get("request") or ""))
    except ValueError as error:
        raise attrs.forbid(f"unable to parse csr: {error}") from None
    if name != f"system:node:{node}":
        raise attrs.forbid(f"can only create a node CSR with CN=system:node:{node}")


def _node(node: str, attrs: Attributes) -> None:
    name = attrs.display_name
    if name != node:
        raise attrs.forbid(f'node "{node}" is not allowed to modify node "{name}"')
    if attrs.operation == DELETE:
        return
    new, old = spec_of(attrs.object), spec_of(attrs.old)
    labels = forbidden_labels(meta_of(attrs.object).get("labels") or {}, meta_of(attrs.old).get("labels") or {})
    if attrs.operation == CREATE:
        if new.get("configSource"):
            raise attrs.forbid(f'node "{node}" is not allowed to create pods with a non-nil configSource')
        if labels:
            raise attrs.forbid(f'node "{node}" is not allowed to set the following labels: {", ".join(labels)}')
    if attrs.operation == UPDATE:
        if new.get("configSource") and new["configSource"] != old.get("configSource"):
            raise attrs.forbid(f'node "{node}" is not allowed to update configSource to a new non-nil configSource')
        if (new.get("taints") or []) != (old.get("taints") or []):
            raise attrs.forbid(f'node "{node}" is not allowed to modify taints')
        if (meta_of(attrs.object).get("ownerReferences") or []) != (meta_of(attrs.old).get("ownerReferences") or []):
            # An owner that does not exist would get the Node, and with it its pods, garbage-collected.
            raise attrs.forbid(f'node "{node}" is not allowed to modify ownerReferences')
        if labels:
            raise attrs.forbid(f"is not allowed to modify labels: {', '.join(labels)}")


def _lease(node: str, attrs: Attributes) -> None:
    if attrs.namespace != "kube-node-lease":
        raise attrs.forbid('can only access leases in the "kube-node-lease" system namespace')
    if attrs.display_name != node:
        raise attrs.forbid("can only access node lease with the same name as the requesting node")


def _claim(node: str, attrs: Attributes) -> None:
    if attrs.subresource != "status":
        raise attrs.forbid("may only update PVC status")
    if attrs.operation != UPDATE:
        raise attrs.forbid(f'unexpected operation "{attrs.operation}"')
    if _beyond_status(attrs.old) != _beyond_status(attrs.object):
        raise attrs.forbid(
            f'node "{node}" is not allowed to update fields other than status.capacity and status.conditions'
        )


def _beyond_status(claim: Object | None) -> Object:
    claim = dict(claim or {})
    meta = dict(claim.get("metadata") or {})
    meta.pop("resourceVersion", None)
    meta.pop("managedFields", None)
    status = dict(claim.get("status") or {})
    for field in ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"):
        status.pop(field, None)
    return {**claim, "metadata": meta, "status": status}
