"""The roles and bindings that every cluster starts with. The server creates missing ones at each start.

Kubernetes' own are in `default_roles`, unchanged; this module adds podfit's. `admin` and `edit` may resize pods, whose
controllers they may change anyway. Permissions of components that Kubernetes does not have are in `part_roles`.
"""

from __future__ import annotations

from collections.abc import Sequence

from podfit.api.objects import Object
from podfit.apiserver.auth.roles import part_roles
from podfit.apiserver.auth.roles.default_roles import merged
from podfit.apiserver.auth.roles.rules import Rule, rule

API_VERSION = "rbac.authorization.k8s.io/v1"
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
"""The user as which the API server calls nodes."""
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_ALLOCATE = rule(["patch", "update"], [""], ["pods"])
"""The NodeRestriction admission plugin limits this permission to the allocations of the node's own pods."""
_REQUESTS = "system:certificates.k8s.io:certificatesigningrequests:"


def cluster_roles(nodes_allocate: bool = False) -> list[Object]:
    """`nodes_allocate`: nodes write allocations to the specs of pods, as in the design of 2020."""
    vpa = [
        rule(WRITE, ["autoscaling.k8s.io"], ["verticalpodautoscalers"]),
        rule(["create"], ["recommendation.podfit.dev"], ["recommendationqueries"]),
    ]
    own = [
        _role("system:aggregated-metrics-reader", [rule(READ, ["metrics.k8s.io"], ["nodes", "pods"])], to=("view",)),
        _role("podfit:aggregate-resize-edit", [rule(["get", "patch", "update"], [""], ["pods/resize"])], to=("edit",)),
        _role("podfit:aggregate-vpa-edit", vpa, to=("edit",)),
        _role("podfit:aggregate-vpa-view", [rule(READ, ["autoscaling.k8s.io"], ["*"])], to=("view",)),
        *(_role(name, rules) for name, rules in part_roles.CLUSTER_ROLES.items()),
    ]
    if nodes_allocate:
        own.append(_role("system:node", [_ALLOCATE]))
    return merged("ClusterRole", own)


def cluster_role_bindings() -> list[Object]:
    bootstrappers = ("Group", "system:bootstrappers")
    own = [
        *(_binding(name, name, *subjects) for name, subjects in part_roles.SUBJECTS.items()),
        _binding("podfit:kubelet-api-admin", "system:kubelet-api-admin", ("User", KUBELET_CLIENT)),
        _binding("podfit:node-bootstrapper", "system:node-bootstrapper", bootstrappers),
        _binding("podfit:node-autoapprove-bootstrap", f"{_REQUESTS}nodeclient", bootstrappers),
        _binding(
            "podfit:node-autoapprove-certificate-rotation", f"{_REQUESTS}selfnodeclient", ("Group", "system:nodes")
        ),
    ]
    return merged("ClusterRoleBinding", own)


def roles() -> list[Object]:
    """Namespaced roles; podfit's own are in kube-system."""
    own = [
        _described("Role", name, "kube-system") | {"rules": [each.to_json() for each in rules]}
        for name, rules in part_roles.ROLES.items()
    ]
    return merged("Role", own)


def role_bindings() -> list[Object]:
    own = [_binding(name, name, *part_roles.SUBJECTS[name], namespace="kube-system") for name in part_roles.ROLES]
    return merged("RoleBinding", own)


def _described(kind: str, name: str, namespace: str = "", to: Sequence[str] = ()) -> Object:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults", **{_AGGREGATE + role: "true" for role in to}}
    meta: Object = {
        "name": name,
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    if namespace:
        meta["namespace"] = namespace
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta}


def _role(name: str, rules: Sequence[Rule], to: Sequence[str] = ()) -> Object:
    return _described("ClusterRole", name, to=to) | {"rules": [each.to_json() for each in rules]}


def _binding(name: str, role: str, *subjects: tuple[str, str], namespace: str = "") -> Object:
    group, cluster = "rbac.authorization.k8s.io", "" if namespace else "Cluster"
    return _described(f"{cluster}RoleBinding", name, namespace) | {
        "roleRef": {"apiGroup": group, "kind": f"{cluster}Role", "name": role},
        "subjects": [_subject(kind, subject) for kind, subject in subjects],
    }


def _subject(kind: str, name: str) -> Object:
    if kind == "ServiceAccount":
        return {"kind": kind, "name": name, "namespace": "kube-system"}
    return {"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name}
