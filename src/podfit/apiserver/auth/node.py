"""The Node authorizer: a node may read objects referenced by the pods bound to it, and its own Node, Lease and pods.

The graph (node → pods → secrets, config maps, claims, accounts) follows the pods: the server calls `pod_changed` for
every change of a pod, and `claim_changed` for claims, whose volumes nodes read as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

from podfit.api.objects import Object
from podfit.api.pods.migrations import ANNOTATION, SUBRESOURCE, moving
from podfit.api.pods.pod_references import claim_names, config_map_names, secret_names
from podfit.apiserver.auth.authorize import ALLOWED, NO_OPINION, Action, Decision, demanded
from podfit.apiserver.auth.roles.rules import Rule, rule
from podfit.apiserver.request import User

NODES_GROUP = "system:nodes"
_PREFIX = "system:node:"
_Edge = tuple[str, str, str]
"""(resource, namespace, name) that a node may read."""


def node_name_of(user: User) -> str | None:
    """The name of the node that the user is; "" for a node without a name, None for any other user."""
    if not user.name.startswith(_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return user.name[len(_PREFIX) :]


class NodeGraph:
    """The references of each node, counted because several pods may refer to the same object."""

    def __init__(self) -> None:
        self._edges: dict[str, Counter[_Edge]] = {}
        self._volumes: dict[tuple[str, str], str] = {}
        self._coming: dict[tuple[str, str], str] = {}
        """Migrating pods and their target node, which may read their references in advance."""

    def clear(self) -> None:
        self._edges.clear()
        self._coming.clear()
        self._volumes.clear()

    def pod_changed(self, old: Object | None, new: Object | None) -> None:
        """Processes one change: `old` is None for a new pod, `new` for a deleted one."""
        self._migration_changed(old, new)
        if old is not None and new is not None and old.get("spec") is new.get("spec"):
            return
        before, after = _node_of(old), _node_of(new)
        # Between binding and deletion a pod's references are immutable, except for ephemeral containers.
        if before == after and _same_references(old, new):
            return
        if old is not None and before:
            self._subtract(before, _edges_of(old))
        if new is not None and after:
            self._edges.setdefault(after, Counter()).update(_edges_of(new))

    def _migration_changed(self, old: Object | None, new: Object | None) -> None:
        before, after = _target_of(old), _target_of(new)
        if before == after:
            return
        if old is not None and before:
            self._coming.pop(_key_of(old), None)
            self._subtract(before, _edges_of(old))
        if new is not None and after:
            self._coming[_key_of(new)] = after
            self._edges.setdefault(after, Counter()).update(_edges_of(new))

    def is_migrating_to(self, node: str, namespace: str, name: str) -> bool:
        """Whether the pod is migrating to the node."""
        return self._coming.get((namespace, name)) == node

    def claim_changed(self, old: Object | None, new: Object | None) -> None:
        meta = (new or old or {}).get("metadata") or {}
        key = (meta.get("namespace", ""), meta.get("name", ""))
        volume = ((new or {}).get("spec") or {}).get("volumeName")
        if volume:
            self._volumes[key] = volume
        else:
            self._volumes.pop(key, None)

    def related(self, node: str, resource: str, namespace: str, name: str) -> bool:
        edges = self._edges.get(node)
        if edges is None:
            return False
        if resource == "persistentvolumes":
            return any(self._volumes.get(edge[1:]) == name for edge in edges if edge[0] == "persistentvolumeclaims")
        return (resource, namespace, name) in edges

    def _subtract(self, node: str, edges: Iterable[_Edge]) -> None:
        counts = self._edges.get(node)
        if counts is None:
            return
        for edge in edges:
            counts[edge] -= 1
            if counts[edge] <= 0:
                del counts[edge]
        if not counts:
            del self._edges[node]


def _node_of(pod: Object | None) -> str:
    return str(((pod or {}).get("spec") or {}).get("nodeName") or "")


def _key_of(pod: Object) -> tuple[str, str]:
    meta = pod.get("metadata") or {}
    return meta.get("namespace", ""), meta.get("name", "")


def _target_of(pod: Object | None) -> str:
    if pod is None or ANNOTATION not in ((pod.get("metadata") or {}).get("annotations") or {}):
        return ""
    found = moving(pod)
    return found.target if found is not None else ""


def _same_references(old: Object | None, new: Object | None) -> bool:
    if old is None or new is None:
        return False
    one, other = old.get("spec") or {}, new.get("spec") or {}
    return len(one.get("ephemeralContainers") or ()) == len(other.get("ephemeralContainers") or ())


def _edges_of(pod: Object) -> set[_Edge]:
    meta = pod.get("metadata") or {}
    namespace = meta.get("namespace", "")
    edges: set[_Edge] = {("pods", namespace, meta.get("name", ""))}
    # Mirror pods are created by the node itself: their references grant no permissions.
    if "kubernetes.io/config.mirror" in (meta.get("annotations") or {}):
        return edges
    edges.update(("secrets", namespace, name) for name in secret_names(pod))
    edges.update(("configmaps", namespace, name) for name in config_map_names(pod))
    edges.update(("persistentvolumeclaims", namespace, name) for name in claim_names(pod))
    account = (pod.get("spec") or {}).get("serviceAccountName")
    if account:
        edges.add(("serviceaccounts", namespace, account))
    return edges


NODE_RULES: tuple[Rule, ...] = (
    rule(["create"], ["authentication.k8s.io"], ["tokenreviews"]),
    rule(["create"], ["authorization.k8s.io"], ["subjectaccessreviews", "localsubjectaccessreviews"]),
    rule(["get", "list", "watch"], [""], ["services"]),
    rule(["get"], [""], ["endpoints"]),
    rule(["create", "patch", "update"], ["", "events.k8s.io"], ["events"]),
    rule(["create", "get", "list", "watch"], ["certificates.k8s.io"], ["certificatesigningrequests"]),
    rule(["get", "list", "watch"], ["node.k8s.io"], ["runtimeclasses"]),
    rule(["get", "list", "watch"], ["storage.k8s.io"], ["csidrivers"]),
)
"""Permissions of every node, independent of its pods."""


_LONGEST_NAME = 253


@lru_cache(maxsize=1024)
def _every_node(verb: str, group: str, resource: str, subresource: str) -> Decision:
    """Whether every node may do this. These rules do not depend on names or namespaces."""
    action = Action(verb, group, resource, subresource)
    return ALLOWED if any(each.allows(action) for each in NODE_RULES) else NO_OPINION


_ANY_POD = frozenset(
    (
        ("", "create"),
        ("", "delete"),
        ("status", "update"),
        ("status", "patch"),
        ("eviction", "create"),
        (SUBRESOURCE, "create"),
    )
)
"""The permissions of a node on pods. The NodeRestriction admission plugin restricts them to its own pods."""


class NodeAuthorizer:
    def __init__(self, graph: NodeGraph, allocates_in_spec: Callable[[str], bool] = lambda namespace: False) -> None:
        """`allocates_in_spec`: whether nodes write allocations to the specs of pods in this namespace."""
        self._graph, self._allocates_in_spec = graph, allocates_in_spec
        self._by_resource: dict[tuple[str, str], Callable[[str, Action], Decision]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("storage.k8s.io", "csinodes"): _storage_node,
            ("", "serviceaccounts"): self._token,
            ("coordination.k8s.io", "leases"): _lease,
            ("", "nodes"): _node,
            ("", "pods"): self._pod,
        }

    def decide(self, user: User, action: Action) -> Decision:
        node = node_name_of(user)
        if node is None:
            return NO_OPINION
        if not node:
            return Decision(False, f'unknown node for user "{user.name}"')
        decide = self._by_resource.get((action.group, action.resource))
        if decide is not None:
            return decide(node, action)
        if action.path or len(action.resource) + len(action.subresource) > _LONGEST_NAME:
            return NO_OPINION
        return _every_node(action.verb, action.group, action.resource, action.subresource)

    def _claim(self, node: str, action: Action) -> Decision:
        if action.subresource != "status":
            return self._get(node, action)
        if action.verb not in ("update", "patch"):
            return Decision(False, "can only get/update/patch this type")
        return self._if_related(node, action)

    def _read(self, node: str, action: Action) -> Decision:
        if action.verb not in ("get", "list", "watch"):
            return Decision(False, "can only read resources of this type")
        if action.subresource:
            return Decision(False, "cannot read subresource")
        if not action.namespace:
            return Decision(False, "can only read namespaced object of this type")
        return self._if_related(node, action)

    def _get(self, node: str, action: Action) -> Decision:
        if action.verb != "get":
            return Decision(False, "can only get individual resources of this type")
        if action.subresource:
            return Decision(False, "cannot get subresource")
        return self._if_related(node, action)

    def _if_related(self, node: str, action: Action) -> Decision:
        if not action.name:
            return Decision(False, "No Object name found")
        if self._graph.related(node, action.resource, action.namespace, action.name):
            return ALLOWED
        return Decision(False, f"no relationship found between node '{node}' and this object")

    def _token(self, node: str, action: Action) -> Decision:
        if action.verb != "create" or not action.name:
            return Decision(False, "can only create tokens for individual service accounts")
        if action.subresource != "token":
            return Decision(False, "can only create token subresource of serviceaccount")
        return self._if_related(node, action)

    def _pod(self, node: str, action: Action) -> Decision:
        if (action.subresource, action.verb) in _ANY_POD:
            return ALLOWED
        match action.subresource, action.verb:
            case "", "get":
                return self._get(node, action)
            case "", "list" | "watch":
                if demanded(action.field_selector, "spec.nodeName") == node:
                    return ALLOWED
                if demanded(action.field_selector, "status.nominatedNodeName") == node:
                    return ALLOWED
                if action.name:
                    return self._if_related(node, action)
                return Decision(False, "can only list/watch pods with spec.nodeName field selector")
            case "log", "get" if self._graph.is_migrating_to(node, action.namespace, action.name):
                return ALLOWED
            case "", "update" | "patch" if self._allocates_in_spec(action.namespace):
                return ALLOWED
        return NO_OPINION


def _node(node: str, action: Action) -> Decision:
    match action.subresource, action.verb:
        case ("", "create" | "update" | "patch") | ("status", "update" | "patch"):
            return ALLOWED
        case "", "get" | "list" | "watch":
            if action.name == node:
                return ALLOWED
            what = f"'{action.name}'" if action.name else "all nodes"
            return Decision(False, f"node '{node}' cannot read {what}, only its own Node object")
    return NO_OPINION


def _storage_node(node: str, action: Action) -> Decision:
    if action.verb not in ("get", "create", "update", "patch", "delete"):
        return Decision(False, "can only get, create, update, patch, or delete a CSINode")
    if action.verb != "create" and action.name != node:
        return Decision(False, "can only access CSINode with the same name as the requesting node")
    return ALLOWED


def _lease(node: str, action: Action) -> Decision:
    if action.verb not in ("get", "create", "update", "patch", "delete"):
        return Decision(False, "can only get, create, update, patch, or delete a node lease")
    if action.namespace != "kube-node-lease":
        return Decision(False, 'can only access leases in the "kube-node-lease" system namespace')
    if action.verb != "create" and action.name != node:
        return Decision(False, "can only access node lease with the same name as the requesting node")
    return ALLOWED
