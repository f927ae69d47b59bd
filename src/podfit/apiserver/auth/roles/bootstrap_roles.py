"""The roles and bindings that every cluster starts with. The server creates missing ones at each start.

Those of Kubernetes are in `default_roles`; the ones here are added to them. `admin` and `edit` may resize pods (they
may change the pod's controller anyway). Permissions of components that Kubernetes does not have are in `part_roles`.
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
READ_WRITE = (*READ, *WRITE)
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC)
_APPS = (
    "daemonsets",
    "deployments",
    "deployments/scale",
    "replicasets",
    "replicasets/scale",
    "statefulsets",
    "statefulsets/scale",
)
_APPS_STATUS = (
    "controllerrevisions",
    *(f"{kind}/status" for kind in ("daemonsets", "deployments", "replicasets", "statefulsets")),
)
_SESSIONS = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy")
_CORE_WRITTEN = (
    "configmaps",
    "events",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "secrets",
    "serviceaccounts",
    "services",
    "services/proxy",
)
_CORE_SEEN = (
    "bindings",
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "namespaces/status",
    "persistentvolumeclaims",
    "persistentvolumeclaims/status",
    "pods",
    "pods/log",
    "pods/status",
    "replicationcontrollers",
    "replicationcontrollers/scale",
    "replicationcontrollers/status",
    "resourcequotas",
    "resourcequotas/status",
    "serviceaccounts",
    "services",
    "services/status",
)

_VIEW = (
    rule(READ, [""], _CORE_SEEN),
    rule(READ, ["apps"], [*_APPS, *_APPS_STATUS]),
    rule(READ, ["autoscaling"], ["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    rule(READ, ["batch"], ["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    rule(READ, ["discovery.k8s.io"], ["endpointslices"]),
    rule(READ, ["policy"], ["poddisruptionbudgets", "poddisruptionbudgets/status"]),
)
_EDIT = (
    rule(READ, [""], [*_SESSIONS, "secrets", "services/proxy"]),
    rule(["impersonate"], [""], ["serviceaccounts"]),
    rule(WRITE, [""], ["pods", *_SESSIONS]),
    rule(["get", "patch", "update"], [""], ["pods/resize"]),
    rule(["create"], [""], ["pods/eviction", "serviceaccounts/token"]),
    rule(WRITE, [""], _CORE_WRITTEN),
    rule(WRITE, ["apps"], _APPS),
    rule(WRITE, ["autoscaling"], ["horizontalpodautoscalers"]),
    rule(WRITE, ["batch"], ["cronjobs", "jobs"]),
    rule(WRITE, ["policy"], ["poddisruptionbudgets"]),
    rule(READ_WRITE, ["coordination.k8s.io"], ["leases"]),
)
_ADMIN = (
    rule(["create"], ["authorization.k8s.io"], ["localsubjectaccessreviews"]),
    rule(READ_WRITE, ["rbac.authorization.k8s.io"], ["rolebindings", "roles"]),
)
_EVENTS = rule(["create", "patch", "update"], ["", "events.k8s.io"], ["events"])
_ASK = (
    rule(["create"], ["authentication.k8s.io"], ["tokenreviews"]),
    rule(["create"], ["authorization.k8s.io"], ["subjectaccessreviews"]),
)
_SCHEDULER = (
    _EVENTS,
    rule(["create"], ["coordination.k8s.io"], ["leases"]),
    rule(["get", "update"], ["coordination.k8s.io"], ["leases"], ["kube-scheduler"]),
    rule(
        READ,
        [""],
        ["namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "replicationcontrollers", "services"],
    ),
    rule(["delete", *READ], [""], ["pods"]),
    rule(["create"], [""], ["bindings", "pods/binding"]),
    rule(["patch", "update"], [""], ["pods/status"]),
    rule(READ, ["apps"], ["replicasets", "statefulsets"]),
    rule(READ, ["policy"], ["poddisruptionbudgets"]),
    rule(READ, ["scheduling.k8s.io"], ["priorityclasses"]),
    rule(READ, ["storage.k8s.io"], ["*"]),
    *_ASK,
)
_NODE = (
    rule([*READ, "create", "patch", "update"], [""], ["nodes"]),
    rule(["patch", "update"], [""], ["nodes/status", "pods/status"]),
    rule([*READ, "create", "delete"], [""], ["pods"]),
    rule(["create"], [""], ["pods/eviction", "serviceaccounts/token"]),
    rule(READ, [""], ["configmaps", "secrets", "services"]),
    rule(["get"], [""], ["endpoints", "persistentvolumeclaims", "persistentvolumes"]),
    rule(["create", "get", "list", "watch"], ["certificates.k8s.io"], ["certificatesigningrequests"]),
    rule(["create", "delete", "get", "patch", "update"], ["coordination.k8s.io"], ["leases"]),
    rule(READ, ["node.k8s.io"], ["runtimeclasses"]),
    _EVENTS,
    *_ASK,
)
_ALLOCATE = rule(["patch", "update"], [""], ["pods"])
"""The NodeRestriction admission plugin limits it to the allocations of the node's own pods."""
_SIGNERS = (
    ("legacy-unknown-approver", "kubernetes.io/legacy-unknown"),
    ("kubelet-serving-approver", "kubernetes.io/kubelet-serving"),
    ("kube-apiserver-client-approver", "kubernetes.io/kube-apiserver-client"),
    ("kube-apiserver-client-kubelet-approver", "kubernetes.io/kube-apiserver-client-kubelet"),
)


def cluster_roles(nodes_allocate: bool = False) -> list[Object]:
    """`nodes_allocate`: nodes write allocations to the specs of pods, as in the design of 2020."""
    csr = "system:certificates.k8s.io:"
    requests = f"{csr}certificatesigningrequests:"
    own = [
        _role("cluster-admin", [rule(["*"], ["*"], ["*"]), rule(["*"], urls=["*"])]),
        _role("system:discovery", [rule(["get"], urls=_DISCOVERY)]),
        _role("system:public-info-viewer", [rule(["get"], urls=_PUBLIC)]),
        _role(
            "system:monitoring",
            [rule(["get"], urls=["/healthz/*", "/livez/*", "/metrics", "/metrics/slis", "/readyz/*"])],
        ),
        _role("system:basic-user", _basic_user()),
        _aggregated("admin", "admin"),
        _aggregated("edit", "edit", to=("admin",)),
        _aggregated("view", "view", to=("edit",)),
        _role("system:aggregate-to-admin", _ADMIN, to=("admin",)),
        _role("system:aggregate-to-edit", _EDIT, to=("edit",)),
        _role("system:aggregate-to-view", _VIEW, to=("view",)),
        _role("system:aggregated-metrics-reader", [rule(READ, ["metrics.k8s.io"], ["nodes", "pods"])], to=("view",)),
        _role(
            "podfit:aggregate-vpa-edit",
            [
                rule(WRITE, ["autoscaling.k8s.io"], ["verticalpodautoscalers"]),
                rule(["create"], ["recommendation.podfit.dev"], ["recommendationqueries"]),
            ],
            to=("edit",),
        ),
        _role("podfit:aggregate-vpa-view", [rule(READ, ["autoscaling.k8s.io"], ["*"])], to=("view",)),
        _role("system:auth-delegator", _ASK),
        _role("system:kube-scheduler", _SCHEDULER),
        _role("system:node", (*_NODE, _ALLOCATE) if nodes_allocate else _NODE),
        *(_role(name, rules) for name, rules in part_roles.CLUSTER_ROLES.items()),
        _role("system:kubelet-api-admin", _kubelet_api()),
        _role("system:node-bootstrapper", [_requests("", "create", *READ)]),
        _role(f"{requests}nodeclient", [_requests("/nodeclient", "create")]),
        _role(f"{requests}selfnodeclient", [_requests("/selfnodeclient", "create")]),
        *(
            _role(csr + name, [rule(["approve"], ["certificates.k8s.io"], ["signers"], [signer])])
            for name, signer in _SIGNERS
        ),
        _role(
            "system:service-account-issuer-discovery",
            [
                rule(
                    ["get"],
                    urls=[
                        "/.well-known/openid-configuration",
                        "/.well-known/openid-configuration/",
                        "/openid/v1/jwks",
                        "/openid/v1/jwks/",
                    ],
                )
            ],
        ),
    ]
    return merged("ClusterRole", own)


def cluster_role_bindings() -> list[Object]:
    everyone = ("Group", "system:authenticated")
    bootstrappers = ("Group", "system:bootstrappers")
    requests = "system:certificates.k8s.io:certificatesigningrequests:"
    own = [
        _binding("cluster-admin", "cluster-admin", ("Group", "system:masters")),
        _binding("system:discovery", "system:discovery", everyone),
        _binding("system:basic-user", "system:basic-user", everyone),
        _binding("system:monitoring", "system:monitoring", ("Group", "system:monitoring")),
        _binding(
            "system:public-info-viewer", "system:public-info-viewer", everyone, ("Group", "system:unauthenticated")
        ),
        _binding("system:kube-scheduler", "system:kube-scheduler", ("User", "system:kube-scheduler")),
        _binding(
            "system:kube-controller-manager",
            "system:kube-controller-manager",
            ("User", "system:kube-controller-manager"),
        ),
        *(_binding(name, name, *subjects) for name, subjects in part_roles.SUBJECTS.items()),
        _binding("podfit:kubelet-api-admin", "system:kubelet-api-admin", ("User", KUBELET_CLIENT)),
        _binding("podfit:node-bootstrapper", "system:node-bootstrapper", bootstrappers),
        _binding("podfit:node-autoapprove-bootstrap", f"{requests}nodeclient", bootstrappers),
        _binding(
            "podfit:node-autoapprove-certificate-rotation", f"{requests}selfnodeclient", ("Group", "system:nodes")
        ),
        _binding(
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            ("Group", "system:serviceaccounts"),
        ),
    ]
    return merged("ClusterRoleBinding", own)


def roles() -> list[Object]:
    """Namespaced roles; podfit's own are in kube-system."""
    reader = rule(READ, [""], ["configmaps"], ["extension-apiserver-authentication"])
    held = {"extension-apiserver-authentication-reader": (reader,), **part_roles.ROLES}
    own = [
        _described("Role", name, "kube-system") | {"rules": [each.to_json() for each in rules]}
        for name, rules in held.items()
    ]
    return merged("Role", own)


def role_bindings() -> list[Object]:
    own = [_binding(name, name, *part_roles.SUBJECTS[name], namespace="kube-system") for name in part_roles.ROLES]
    return merged("RoleBinding", own)


def _basic_user() -> list[Rule]:
    return [
        rule(["create"], ["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
        rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
    ]


def _kubelet_api() -> list[Rule]:
    parts = (
        "nodes/checkpoint",
        "nodes/configz",
        "nodes/healthz",
        "nodes/log",
        "nodes/metrics",
        "nodes/pods",
        "nodes/proxy",
        "nodes/stats",
    )
    return [rule([*READ, "proxy"], [""], ["nodes"]), rule(["*"], [""], parts)]


def _requests(suffix: str, *verbs: str) -> Rule:
    return rule(verbs, ["certificates.k8s.io"], [f"certificatesigningrequests{suffix}"])


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


def _aggregated(name: str, label: str, to: Sequence[str] = ()) -> Object:
    """`admin` contains `edit`, and `edit` contains `view`; rules are the resulting unions."""
    order = {"view": (_VIEW,), "edit": (_VIEW, _EDIT), "admin": (_VIEW, _EDIT, _ADMIN)}
    held = [each.to_json() for rules in order[label] for each in rules]
    selector = {"clusterRoleSelectors": [{"matchLabels": {_AGGREGATE + label: "true"}}]}
    return _described("ClusterRole", name, to=to) | {"aggregationRule": selector, "rules": held}


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
